"""Runs the checks and test tiers of CI: one line a step when green, the whole output of the step that is red."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Step:
    name: str
    command: Sequence[str]


def pytest(*arguments: str) -> list[str]:
    return [str(BIN / "pytest"), "-q", "--durations=5", *arguments]


STAGES: dict[str, list[Step]] = {
    "check": [
        Step("format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."]),
        Step("lint", [str(BIN / "ruff"), "check", "--quiet", "."]),
        Step("types", [str(BIN / "mypy")]),
        Step("layers", [str(BIN / "lint-imports")]),
        Step("generated files", [sys.executable, "hack/generate.py", "--check"]),
    ],
    "unit": [Step("unit tests", pytest("tests/unit"))],
    "local": [
        Step("local tests", pytest("tests/local")),
        # The controller runtime's own suite, faults and all, with our server in place of the real one.
        Step("runtime on ours", pytest("--server=embedded", "tests/kube/runtime")),
    ],
    "kube": [Step("kube tests", pytest("tests/kube"))],
    "faults": [Step("fault tests", pytest("tests/faults"))],
}


def main(stages: Sequence[str]) -> int:
    unknown = [stage for stage in stages if stage not in STAGES]
    if unknown or not stages:
        print(f"usage: ci.py {' '.join(f'[{stage}]' for stage in STAGES)}", file=sys.stderr)
        return 2
    failed = {step.name: said for stage in stages for step in STAGES[stage] if (said := run(step)) is not None}
    for name, said in failed.items():
        print(f"\nfailed: {name}", *red_tests(said), sep="\n  ")
    return 1 if failed else 0


def run(step: Step) -> str | None:
    """Runs a step and prints its line; its output, which is also given back, only when it failed."""
    began = time.monotonic()
    done = subprocess.run(
        step.command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    seconds = time.monotonic() - began
    passed = done.returncode == 0
    print(f"{'ok  ' if passed else 'FAIL'} {step.name:<16} {seconds:6.1f} s  {counted(done.stdout)}", flush=True)
    for line in left_out(done.stdout) if passed else ():
        print(f"     {line}", flush=True)
    if not passed:
        print(f"  $ {' '.join(step.command)}  (exit {done.returncode})\n{done.stdout}", flush=True)
    return None if passed else done.stdout


def red_tests(output: str) -> list[str]:
    """The tests that pytest names in its summary: a long output may have been cut where it is read."""
    return re.findall(r"^(?:FAILED|ERROR) (\S+::.+)$", output, re.MULTILINE)


def left_out(output: str) -> list[str]:
    """What a green run says that it did not try."""
    return re.findall(r"^\d+ \w+ were left out .+$", output, re.MULTILINE)


def counted(output: str) -> str:
    """pytest's own count of the tests, if there is one."""
    found = re.findall(r"^(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s", output, re.MULTILINE)
    return found[-1] if found else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
