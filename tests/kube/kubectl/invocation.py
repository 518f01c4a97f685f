"""One kubectl command line as data, and how it is run against a server."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from equipment.servers import ApiServer
from equipment.waiting import eventually_sync

PLACE = re.compile(r"\$\{(\w+)\}")
DEADLINE = 60.0


@dataclass(frozen=True)
class Invocation:
    """`kubectl ARGS`; places such as `${ns}` are filled in for each server apart."""

    args: str
    stdin: str = ""
    edit: str = ""
    """A sed script that plays the person in front of the editor."""
    keep: str = ""
    """The name under which later invocations refer to the output."""
    lines: int = 0
    """For what never ends by itself: read as many lines, then end it."""
    output: bool = True
    """False where only the exit code can be compared."""
    apart: str = ""
    """A pattern of what is left out of the comparison."""
    until: str = ""
    """Run again until the output holds this text: for what a server does a moment later."""


@dataclass(frozen=True)
class Scenario:
    """Invocations that build on one another, in a namespace of its own."""

    name: str
    steps: tuple[Invocation, ...]


@dataclass(frozen=True)
class Result:
    code: int
    output: str
    errors: str


@dataclass
class Terminal:
    """A shell in front of one server: kubectl, the namespace, what earlier commands printed."""

    server: ApiServer
    binary: Path
    folder: Path
    known: dict[str, str] = field(default_factory=dict)

    def run(self, step: Invocation) -> Result:
        """The result of one invocation, masked."""
        if step.until:
            return eventually_sync(lambda: self._until(step), within=DEADLINE, what=f"kubectl {step.args}")
        return self._once(step)

    def _until(self, step: Invocation) -> Result:
        result = self._once(step)
        assert step.until in result.output, result
        return result

    def _once(self, step: Invocation) -> Result:
        command = self._command(step.args)
        environment = self._environment(step.edit)
        if step.lines:
            return self._first_lines(command, environment, step.lines)
        stdin = self._filled(step.stdin)
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, check=False, timeout=DEADLINE
        )
        if step.keep:
            self.known[step.keep] = done.stdout.strip()
        return Result(done.returncode, self._masked(done.stdout), self._masked(done.stderr))

    @contextmanager
    def started(self, args: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
        """kubectl while it runs, with what it says in a file; ended with the block at the latest."""
        command = self._command(args)
        with output.open("wb") as file, subprocess.Popen(command, env=self._environment(""), stdout=file) as process:
            try:
                yield process
            finally:
                process.kill()

    def _command(self, args: str) -> list[str]:
        return [str(self.binary), "-n", self.known["ns"], *shlex.split(self._filled(args))]

    def _first_lines(self, command: list[str], environment: dict[str, str], count: int) -> Result:
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(count)]
            process.kill()
        return Result(0, self._masked("".join(lines)), "")

    def _environment(self, edit: str) -> dict[str, str]:
        found = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.server.kubeconfig),
            "KUBECACHEDIR": str(self.folder / "cache"),
        }
        if edit:
            found["KUBE_EDITOR"] = f"sed -i -e {shlex.quote(edit)}"
        return found

    def _filled(self, text: str) -> str:
        return PLACE.sub(lambda place: self.known[place.group(1)], text)

    def _masked(self, text: str) -> str:
        return masked(text.replace(self.server.url, "<server>").replace(self.known["ns"], "<ns>"))


MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r'(resourceVersion"?: |Resource Version: +)"?\d+"?'), r"\1<version>"),
    (re.compile(r"\b10\.96\.\d+\.\d+\b"), "<cluster IP>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"), "<time>"),
    (re.compile(r"\b\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"\b(?:\d+[smhdy])+\b(?= *(?:$|\n| ))"), "<age>"),
    (re.compile(r"<(?:invalid|unknown)>"), "<age>"),
    (re.compile(r"/tmp/[\w./-]+"), "<file>"),
    (re.compile(r"(kube-api-access-)\w{5}"), r"\1<generated>"),
    (re.compile(r"[ \t]+"), " "),  # the width of a column follows what is in it
    (re.compile(r"-{3,}"), "---"),
)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def masked(text: str) -> str:
    """The text without what differs between any two servers."""
    year = str(datetime.now(UTC).year)
    text = TIME.sub(lambda found: "<time>" if found.group().startswith(year) else found.group(), text)
    for pattern, replacement in MASKS:
        text = pattern.sub(replacement, text)
    return text
