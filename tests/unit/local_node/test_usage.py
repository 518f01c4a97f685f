"""What containers used between two looks."""

from __future__ import annotations

from gpu_runtime.local.apiserver.usage import Usage
from gpu_runtime.local.node.usage import Reading, between

SECOND = 1_000_000_000
MAIN = ("uid", "main")


def a_reading(at: float, times: dict[tuple[int, int], int], machine: int = 0) -> Reading:
    return Reading(at, Usage(machine, 7), {MAIN: (times, 4096)})


def test_processor_time_is_shared_out_over_the_time_between() -> None:
    measured = between(a_reading(10, {(1, 5): SECOND}, SECOND), a_reading(12, {(1, 5): 2 * SECOND}, 4 * SECOND))
    assert (measured.seconds, measured.pods) == (2, {"uid": {"main": Usage(SECOND // 2, 4096)}})
    assert measured.machine == Usage(3 * SECOND // 2, 7)


def test_what_a_process_used_before_it_was_seen_does_not_count() -> None:
    for earlier in ({}, {(1, 4): SECOND}):  # nobody, and another process with the same id
        measured = between(a_reading(10, earlier), a_reading(11, {(1, 5): 900 * SECOND}))
        assert measured.pods["uid"]["main"].cpu == 0


def test_a_container_that_has_ended_is_not_there() -> None:
    assert between(a_reading(10, {(1, 5): SECOND}), Reading(11, Usage(0, 7), {})).pods == {}
