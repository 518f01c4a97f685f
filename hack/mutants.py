"""Changes guarded lines of the source, one at a time, and shows that the test beside each notices.

Tests carry `@mutant(path, before, after)` (tests/equipment/mutation.py). A mutant that survives shows a test that
cannot fail.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from realkube import binaries
from realkube.control_plane import ControlPlane
from steps import Step, cleared, end_with_steps, run

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "gpu_runtime"
TESTS_FAILED = 1
MINUTES_A_MUTANT = 3.0
PATIENCE = "0.3"
"""Factor on the waits of tests: most mutants are noticed when a wait times out, so shorter waits save time."""


@dataclass(frozen=True)
class Mutant:
    test: str
    path: str
    before: str
    after: str

    @property
    def needs_server(self) -> bool:
        """Whether the test asks for an API server, which is shared with other tests."""
        return self.test.startswith(("tests/kube/", "tests/faults/"))

    @property
    def runs_beside_others(self) -> bool:
        """Whether the test can run beside others: unit tests share nothing, runtime tests have a namespace each."""
        return self.test.startswith(("tests/unit/", "tests/kube/runtime/"))

    @property
    def changes_embedded_server(self) -> bool:
        return self.path.startswith("local/")

    def __str__(self) -> str:
        return f"{self.path}: {self.before!r} -> {self.after!r}\n         {self.test}"


class Collector:
    """A pytest plugin that only reads the marks."""

    def __init__(self) -> None:
        self.mutants: dict[Mutant, None] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            test = item.nodeid.partition("[")[0]  # all parameters together: one of them must notice
            for mark in item.iter_markers("mutant"):
                self.mutants[Mutant(test, **mark.kwargs)] = None


@dataclass
class Trial:
    """Tries mutants on several threads. Tests that cannot run beside others all run on one of these threads."""

    server: str
    environment: dict[str, str]
    deadline: float
    survivors: list[Mutant] = field(default_factory=list)
    tried: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self, *queues: list[Mutant]) -> None:
        for queue in queues:
            while (mutant := self._next(queue)) is not None:
                began = time.monotonic()
                word, output = self.judge(mutant)
                with self._lock:
                    self.tried += 1
                    print(f"{word:<8} {time.monotonic() - began:5.1f} s  {mutant.test}", flush=True)
                    if word != "noticed":
                        self.survivors.append(mutant)
                        print(output[-3000:], flush=True)

    def _next(self, queue: list[Mutant]) -> Mutant | None:
        with self._lock:
            return queue.pop() if queue and time.monotonic() < self.deadline else None

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """`noticed` when the test fails, and fails as a test, on the changed source; else what happened."""
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            overlay(Path(folder), mutant)
            command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", mutant.test]
            if mutant.needs_server:
                command.append(f"--server={self._server_for(mutant)}")
            outcome = run(Step("mutant", command, MINUTES_A_MUTANT), self._environment_for(mutant, folder))
        if outcome.timed_out:
            return "noticed", "it hung"
        if outcome.code == TESTS_FAILED:
            # A failed fixture does not show that the test notices the mutant.
            never_ran = "ERROR at setup of" in outcome.output and "\nFAILED " not in outcome.output
            return ("BROKEN" if never_ran else "noticed"), outcome.output
        return ("MISSED" if outcome.code == 0 else "BROKEN"), outcome.output

    def _server_for(self, mutant: Mutant) -> str:
        """The server for the test: a mutant of `local/` changes the embedded server, so its test must run on that."""
        return "embedded" if mutant.changes_embedded_server else self.server

    def _environment_for(self, mutant: Mutant, folder: str) -> dict[str, str]:
        environment = dict(self.environment) if mutant.needs_server else cleared(self.environment)
        changes = {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "GPU_RUNTIME_TEST_PATIENCE": PATIENCE}
        return {**environment, **changes}


def overlay(folder: Path, mutant: Mutant) -> None:
    """Makes a copy of the package with one changed file. Other folders are links, so their bytecode is reused."""
    source, copy = PACKAGE, folder / PACKAGE.name
    for name in (*Path(mutant.path).parts[:-1], ""):
        copy.mkdir()
        for each in source.iterdir():
            if each.is_dir() and each.name != name:
                (copy / each.name).symlink_to(each)
            elif each.is_file():
                shutil.copy2(each, copy / each.name)
        source, copy = source / name, copy / name
    file = folder / PACKAGE.name / mutant.path
    file.write_text(file.read_text().replace(mutant.before, mutant.after))


def stale(mutant: Mutant) -> str:
    """Why the mutant cannot be made: its `before` is not found exactly once. Empty when it can."""
    file = PACKAGE / mutant.path
    count = file.read_text().count(mutant.before) if file.is_file() else 0
    return "" if count == 1 else f"STALE    {count} times in the source: {mutant}"


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    mutants = [mutant for mutant in collected(options.tests) if options.k in f"{mutant.path} {mutant.test}"]
    if not mutants:
        print("no test carries such a mutant", file=sys.stderr)
        return 2
    unusable = [line for mutant in mutants if (line := stale(mutant))]
    print(f"{len(mutants)} mutants, order {options.seed}", *unusable, sep="\n", flush=True)
    if options.list:
        print(*mutants, sep="\n")
    if options.list or unusable:
        return 1 if unusable else 0
    random.Random(options.seed).shuffle(mutants)
    with environment_of(mutants, options.server) as environment:
        if not options.tests_are_green and not green(mutants, options.server, environment):
            return 2
        trial = Trial(options.server, environment, time.monotonic() + options.minutes * 60)
        try_all(trial, mutants)
    for mutant in trial.survivors:
        print(f"SURVIVED {mutant}")
    untried = f"; no time for {left}" if (left := len(mutants) - trial.tried) else ""
    print(f"{trial.tried - len(trial.survivors)} of {trial.tried} mutants were noticed{untried}")
    return 1 if trial.survivors else 0


def collected(tests: Sequence[str]) -> list[Mutant]:
    collector, said = Collector(), io.StringIO()
    with redirect_stdout(said):
        code = pytest.main(["--collect-only", "-qq", "--no-header", *tests], plugins=[collector])
    if code != pytest.ExitCode.OK:
        sys.exit(f"{said.getvalue()}\nthe tests cannot be collected")
    return list(collector.mutants)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    built = binaries.found("kube-apiserver") is not None
    parser = argparse.ArgumentParser(prog="mutants.py", description=__doc__)
    add = parser.add_argument
    add("tests", nargs="*", default=["tests"], help="files, folders or names of tests, as pytest takes them")
    add("-k", default="", metavar="TEXT", help="only where the source's path or the test's name contains this")
    add("--list", action="store_true", help="show the mutants and try none")
    add("--minutes", type=float, default=float("inf"), help="begin no further mutant after this time")
    add("--seed", default=state(), help="the order in which they are tried; another one after each commit")
    add("--server", choices=("real", "embedded"), default="real" if built else "embedded")
    add("--tests-are-green", action="store_true", help="do not run the tests on the unchanged source first")
    return parser.parse_args(arguments)


def state() -> str:
    """Eight digits of the committed tree, as a seed: each commit tries other mutants within the time limit."""
    command = ["git", "rev-parse", "HEAD^{tree}"]
    tree = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return tree.stdout[:8] if tree.returncode == 0 else os.urandom(4).hex()


def green(mutants: Sequence[Mutant], server: str, environment: dict[str, str]) -> bool:
    """Whether the tests pass on the unchanged source: a test that always fails would seem to notice every mutant."""
    for needs_server in (False, True):
        tests = sorted({mutant.test for mutant in mutants if mutant.needs_server == needs_server})
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", *tests]
        if needs_server:
            command.append(f"--server={server}")
        given = environment if needs_server else cleared(environment)
        outcome = run(Step("tests on the unchanged source", command, 60.0), given) if tests else None
        if outcome is not None and outcome.code != 0:
            print(f"{outcome.output}\nthe tests are red on the unchanged source", flush=True)
            return False
    return True


def try_all(trial: Trial, mutants: Sequence[Mutant]) -> None:
    beside = [mutant for mutant in mutants if mutant.runs_beside_others]
    alone = [mutant for mutant in mutants if not mutant.runs_beside_others]
    threads = [threading.Thread(target=trial.work, args=queues) for queues in ((alone, beside), (beside,), (beside,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def environment_of(mutants: Sequence[Mutant], server: str) -> Iterator[dict[str, str]]:
    """The environment of the tests, with one real control plane for all of them: starting it takes long."""
    environment = cleared(os.environ)
    with ExitStack() as stack:
        if server == "real" and any(mutant.needs_server for mutant in mutants):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-"))
            plane = stack.enter_context(ControlPlane(Path(folder) / "plane"))
            plane.start_kwok()  # tests cannot do it themselves on a server that they did not start
            environment["GPU_RUNTIME_TEST_KUBECONFIG"] = str(plane.kubeconfig)
        yield environment


if __name__ == "__main__":
    end_with_steps()
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
