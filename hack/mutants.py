"""Breaks each guarded line of the source in a copy and shows that the test beside it fails.

Tests carry `@mutant(path, before, after)` (tests/equipment/mutation.py). A mutant that survives shows a test that
cannot fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from realkube.control_plane import ControlPlane

ROOT = Path(__file__).parent.parent
TESTS_FAILED = 1
SECONDS_A_MUTANT = 300


@dataclass(frozen=True)
class Mutant:
    test: str
    path: str
    before: str
    after: str


class Collector:
    """A pytest plugin that only reads the marks."""

    def __init__(self) -> None:
        self.mutants: dict[Mutant, None] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            test = item.nodeid.partition("[")[0]  # all parameters together: one of them must notice
            for mark in item.iter_markers("mutant"):
                self.mutants[Mutant(test, **mark.kwargs)] = None


def main(arguments: list[str]) -> int:
    collector = Collector()
    code = pytest.main(["--collect-only", "-qq", "--no-header", *(arguments or ["tests"])], plugins=[collector])
    if code != pytest.ExitCode.OK or not collector.mutants:
        print("cannot collect the tests that carry a mutant", file=sys.stderr)
        return 2
    print(f"\n{len(collector.mutants)} mutants")
    with shared_server() as environment:
        survivors = [mutant for mutant in collector.mutants if not killed(mutant, environment)]
    for mutant in survivors:
        print(f"SURVIVED {mutant.path}: {mutant.before!r} -> {mutant.after!r}\n         {mutant.test}")
    print(f"{len(collector.mutants) - len(survivors)} of {len(collector.mutants)} mutants were noticed")
    return 1 if survivors else 0


def killed(mutant: Mutant, environment: dict[str, str]) -> bool:
    """True when the test fails, and fails as a test, on the changed copy."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        file = source / "gpu_runtime" / mutant.path
        text = file.read_text()
        if text.count(mutant.before) != 1:
            print(f"STALE    {mutant.path}: {mutant.before!r} occurs {text.count(mutant.before)} times")
            return False
        file.write_text(text.replace(mutant.before, mutant.after))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", mutant.test]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env={**environment, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=SECONDS_A_MUTANT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"noticed  {mutant.test} (it hung)", flush=True)
            return True
    noticed = done.returncode == TESTS_FAILED
    print(f"{'noticed ' if noticed else 'MISSED  '} {mutant.test}", flush=True)
    if not noticed and done.returncode != 0:
        print(done.stdout[-3000:] + done.stderr[-1000:])
    return noticed


@contextmanager
def shared_server() -> Iterator[dict[str, str]]:
    """The environment of one real control plane for all mutants: a start for each would take most of the time."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ControlPlane(Path(folder) / "plane") as plane:
        yield {**os.environ, "GPU_RUNTIME_TEST_KUBECONFIG": str(plane.kubeconfig)}


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
