"""The limit of open files fits the connections that the settings allow, or fewer are allowed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from equipment.mutation import mutant

PROGRAM = """
import resource, sys
from gpu_runtime.config import ApiLimits
from gpu_runtime.http.server import most_streams
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(most_streams(ApiLimits()), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def streams_under(soft: int, hard: int) -> tuple[int, int, str]:
    """How many streams a process of these limits allows, its limit then, and what it logged."""
    program = PROGRAM.format(soft=soft, hard=hard)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    *logged, last = done.stdout.splitlines()
    streams, limit = last.split()
    return int(streams), int(limit), "".join(logged)


@pytest.mark.parametrize("soft", [256, 1024, 4096])
@mutant("kube/process.py", "resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))", "pass")
def test_500_streams_fit_into_a_process_whose_limit_can_be_raised(soft: int) -> None:
    streams, limit, logged = streams_under(soft, 4096)
    assert (streams, logged) == (500, "")
    assert limit >= 2 * 500 + 256  # a followed log has a connection to its client and one to the cluster


@mutant("edge/open_files.py", "room = max(1, limit - SPARE)", "room = connections")
def test_a_process_whose_limit_cannot_be_raised_allows_fewer_streams_and_says_so() -> None:
    streams, limit, logged = streams_under(700, 1000)
    assert limit == 1000
    assert 2 * streams + 256 < 1000
    assert "ulimit" in logged
