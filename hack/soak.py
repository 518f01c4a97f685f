"""Runs randomised tests with new seeds for MINUTES, and prints how to repeat a run that failed.

make soak MINUTES=60 [SEED=N] [ROUNDS=N]
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ci import counted, red_tests
from realkube import binaries
from steps import Step, cleared, end_with_steps, run

ANYWHERE = ("tests/unit", "tests/local/apiserver tests/local/model", "tests/local/contract")
ON_A_REAL_SERVER = ("tests/kube", "tests/faults")
"""Each string of both tuples is one run of pytest: after a failed run the next one still starts."""
NOTHING_COLLECTED = 5


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="soak.py", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="begin nothing more after this time")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6) * 1000, help="of the first round")
    parser.add_argument("--rounds", type=int, help="how many rounds each test runs, instead of its own number")
    options = parser.parse_args(arguments)
    groups: tuple[str, ...] = ANYWHERE
    if binaries.found("kube-apiserver") is None:
        print("without tests on a real API server: `make build-kube` builds one", flush=True)
    else:
        groups += ON_A_REAL_SERVER
    print(f"seed {options.seed}, {options.minutes:g} minutes", flush=True)
    deadline, number, failed = time.monotonic() + options.minutes * 60, 0, 0
    while time.monotonic() < deadline:
        seed, group = options.seed + number // len(groups), groups[number % len(groups)]
        failed += not passed(group, seed, options.rounds)
        number += 1
    print(f"{number} runs, {failed} red; the seeds were {options.seed} to {options.seed + (number - 1) // len(groups)}")
    return 1 if failed else 0


def passed(group: str, seed: int, rounds: int | None) -> bool:
    """Runs the randomised tests of some folders once, with one seed."""
    chosen = ["--soak-only", f"--soak-seed={seed}", *([] if rounds is None else [f"--soak-rounds={rounds}"])]
    command = [str(Path(sys.executable).parent / "pytest"), "-q", *chosen, *group.split()]
    began = time.monotonic()
    outcome = run(Step("soak", command, minutes=120), cleared(os.environ))
    good = outcome.code in (0, NOTHING_COLLECTED)
    seconds = time.monotonic() - began
    print(
        f"{'ok  ' if good else 'FAIL'} seed {seed} {seconds:6.1f} s  {counted(outcome.output):<30} {group}", flush=True
    )
    if not good:
        print(outcome.output, *red_tests(outcome.output), f"  $ {' '.join(command)}", sep="\n", flush=True)
    return good


if __name__ == "__main__":
    end_with_steps()
    sys.exit(main(sys.argv[1:]))
