"""Command lines as people are given them, run word by word against any installation.

A walkthrough is a shell file: each step begins with `#: its name`. Lines are run by bash with the real curl and
kubectl. Only what belongs to an installation is put in: the address of its API, and less memory where it has less.
Where there is no curl, a stand-in made of Python takes its arguments; where there is no kubectl, its steps are left
out and counted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from equipment.installation import kubectl

PRINTED_URL = "http://127.0.0.1:8080"
PRINTED_MEMORY = "16Gi"
STEP = re.compile(r"^#: (.+)$", re.MULTILINE)
SECONDS = 120
# curl's status goes to standard error, where no jq eats it.
CURL = "curl() { command curl -w '%{stderr}%{http_code}\\n' \"$@\"; }"
STAND_IN = Path(__file__).with_name("stand_in_for_curl.py")
PLAIN_JQ = "jq() { cat; }"


@dataclass(frozen=True)
class Output:
    """What one step printed."""

    text: str
    status: int = 0
    """The HTTP status that curl got."""

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def yaml(self) -> Any:
        return yaml.safe_load(self.text)


@dataclass
class Shell:
    """Runs steps against one installation."""

    url: str
    kubeconfig: Path
    folder: Path
    memory: str = PRINTED_MEMORY
    left_out: list[str] = field(default_factory=list)

    def run(self, lines: str) -> Output:
        """The output of lines that must succeed."""
        adapted = lines.replace(PRINTED_URL, self.url).replace(PRINTED_MEMORY, self.memory)
        script = "\n".join(["set -euo pipefail", *self._prelude(), adapted])
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{lines}\nstatus {done.returncode}\n{done.stdout}{done.stderr}"
        statuses = re.findall(r"^(\d{3})$", done.stderr, re.MULTILINE)
        return Output(done.stdout, int(statuses[-1]) if statuses else 0)

    def _prelude(self) -> list[str]:
        lines = [CURL if shutil.which("curl") else f'curl() {{ {sys.executable} {STAND_IN} "$@"; }}']
        if shutil.which("jq") is None:
            lines.append(PLAIN_JQ)
        if (program := kubectl()) is not None:
            lines.append(f'kubectl() {{ {program} "$@"; }}')
        return lines


class Walkthrough:
    """The steps of one walkthrough, by name; each is run once, in their order."""

    def __init__(self, file: Path, shell: Shell) -> None:
        parts = STEP.split(file.read_text())
        self._steps = dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))
        self._file = file
        self._shell = shell
        self._next = 0

    def step(self, name: str) -> Output | None:
        """Runs the step; None when it needs a kubectl and there is none."""
        order = list(self._steps)
        assert order[self._next :][:1] == [name], f"{self._file.name}: the next step is {order[self._next :][:1]}"
        self._next += 1
        lines = self._steps[name]
        if kubectl() is None and re.search(r"^kubectl ", lines, re.MULTILINE):
            self._shell.left_out.append(name)
            return None
        return self._shell.run(lines)

    def curl(self, name: str) -> Output:
        """Runs a step that needs no kubectl."""
        output = self.step(name)
        assert output is not None
        return output

    def payload(self, name: str) -> str:
        """The body that a step posts."""
        found = re.search(r"-d '(\{.*?\})'", self._steps[name], re.DOTALL)
        assert found is not None
        return found[1]

    def finished(self) -> None:
        """Every step was run."""
        assert self._next == len(self._steps), f"{self._file.name}: not run: {list(self._steps)[self._next :]}"
