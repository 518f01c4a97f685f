"""A status is written when it differs, and conditions of other writers stay."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from equipment.clock import FakeClock
from equipment.mutation import mutant
from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube import Conflict, NotFound, OwnWrites, Resource, StatusWriter, Store
from gpu_runtime.kube.errors import ApiError
from gpu_runtime.kube.status_writer import merge_conditions

CLOCK = FakeClock()
NOW = CLOCK.now()
EARLIER = NOW - timedelta(hours=1)


class ToyStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""
    seen: datetime | None = None
    conditions: list[Condition] = []


class Toy(msgspec.Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    status: ToyStatus = ToyStatus()


TOYS = Resource("example.org", "v1", "Toy", "toys", Toy)
READY = replace(Condition.true("Ready", "Fine", "all is well"), lastTransitionTime=EARLIER)
SYNCED = replace(Condition.false("Synced", "Behind"), lastTransitionTime=EARLIER)
THEIRS = replace(Condition.true("Theirs", "Ok"), lastTransitionTime=EARLIER)

MERGED: dict[str, tuple[list[Condition], list[Condition], list[Condition]]] = {
    "the first condition": ([], [READY], [replace(READY, lastTransitionTime=NOW)]),
    "two conditions": (
        [],
        [READY, SYNCED],
        [replace(READY, lastTransitionTime=NOW), replace(SYNCED, lastTransitionTime=NOW)],
    ),
    "nothing new": ([READY, SYNCED], [SYNCED, READY], [READY, SYNCED]),
    "a condition of another writer stays where it is": ([THEIRS, READY], [READY], [THEIRS, READY]),
    "a new reason moves no time": (
        [READY],
        [replace(READY, reason="Better")],
        [replace(READY, reason="Better")],
    ),
    "a new status moves the time of its condition alone": (
        [READY, SYNCED],
        [READY, replace(SYNCED, status="True")],
        [READY, replace(SYNCED, status="True", lastTransitionTime=NOW)],
    ),
    "an owned condition that is left out is removed": ([READY, THEIRS, SYNCED], [READY], [READY, THEIRS]),
    "no conditions": ([READY, THEIRS], [], [THEIRS]),
}


@pytest.mark.parametrize(("before", "given", "want"), MERGED.values(), ids=MERGED)
@mutant("kube/status_writer.py", "condition.type in given or condition.type not in owns", "False")
@mutant("kube/status_writer.py", "condition.type in given or condition.type not in owns", "True")
def test_conditions_are_merged(before: list[Condition], given: list[Condition], want: list[Condition]) -> None:
    unset = [replace(condition, lastTransitionTime=None) for condition in given]
    assert merge_conditions(before, unset, ("Ready", "Synced"), NOW) == want


def test_a_condition_that_the_writer_does_not_own_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="Theirs"):
        merge_conditions([], [THEIRS], ("Ready",), NOW)


class Server:
    """Stands for the API server: keeps what it is sent, or refuses it."""

    def __init__(self, refusal: ApiError | None = None) -> None:
        self.refusal = refusal
        self.sent: list[Toy] = []

    async def replace(self, resource: Resource[Toy], obj: Toy, *, subresource: str) -> Toy:
        assert (resource, subresource) == (TOYS, "status")
        if self.refusal is not None:
            raise self.refusal
        self.sent.append(obj)
        return replace(obj, metadata=replace(obj.metadata, resourceVersion="2"))


def a_toy(*conditions: Condition, phase: str = "Up") -> Toy:
    meta = ObjectMeta(name="t", namespace="ns", uid="u", resourceVersion="1")
    return Toy(metadata=meta, status=ToyStatus(phase=phase, seen=EARLIER, conditions=list(conditions)))


def a_writer(server: Any) -> StatusWriter[Toy]:
    return StatusWriter(TOYS, OwnWrites(Store[Toy]()), server, ("Ready",), time_field="seen", clock=CLOCK)


async def test_a_status_that_says_the_same_is_not_written() -> None:
    server, toy = Server(), a_toy(READY, THEIRS)
    assert not await a_writer(server).write(toy, replace(toy.status, seen=None), [READY])
    assert server.sent == []


@mutant("kube/status_writer.py", "        self.cache.wrote(written)\n", "")
async def test_a_status_that_differs_is_written_with_its_time_and_known_at_once() -> None:
    server, toy = Server(), a_toy(READY, THEIRS)
    writer = a_writer(server)
    assert await writer.write(toy, replace(toy.status, phase="Down"), [Condition.false("Ready", "Broken")])
    written = writer.cache.get(toy.metadata.key)
    assert written is not None
    broken = replace(Condition.false("Ready", "Broken"), lastTransitionTime=NOW)
    assert written.status == ToyStatus(phase="Down", seen=NOW, conditions=[broken, THEIRS])
    assert server.sent[0].metadata == toy.metadata, "uid and version guard the write"


def refused(kind: type[ApiError], code: int) -> ApiError:
    return kind(code, "", "no", causes=[], retry_after=None)


async def test_an_object_that_is_gone_needs_no_status_and_a_conflict_is_raised() -> None:
    toy = a_toy()
    assert not await a_writer(Server(refused(NotFound, 404))).write(toy, toy.status, [READY])
    with pytest.raises(Conflict):
        await a_writer(Server(refused(Conflict, 409))).write(toy, toy.status, [READY])
