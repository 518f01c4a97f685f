"""When a status is written, and when "not yet" can wait."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from equipment.builders import a_unit
from equipment.clock import FakeClock
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Object
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitStatus
from gpu_runtime.controllers.product_kinds import GPU_UNITS
from gpu_runtime.controllers.readiness import Readiness
from gpu_runtime.controllers.ready_status import ReadyStatus
from gpu_runtime.kube import OwnWrites, Store
from gpu_runtime.kube.resource import Resource
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import CREATED, Memory

T = TypeVar("T", bound=Object)
WAITING = a_unit("u").condition("Ready", "False", "AwaitingStock").status(phase="Progressing")
CASES = {
    "the first status": a_unit("u"),
    "another reason to wait": WAITING.status(lastSyncTime=CREATED.isoformat()),
}


class Server(Memory):
    """The API in memory, with a status subresource."""

    async def replace(self, resource: Resource[T], obj: Object | Mapping[str, Any], *, subresource: str = "") -> T:
        assert subresource == "status"
        return await super().replace(resource, obj)


def written(unit: GPUUnit, *, clock_ahead: float) -> tuple[bool, float | None]:
    """Whether "not yet" was written, and when to come back otherwise. The server's clock says CREATED."""
    server, clock = Server(), FakeClock()
    clock.advance((CREATED - clock.now()) / timedelta(seconds=1) + clock_ahead)
    known = server.put(GPU_UNITS, unit)
    writer = ReadyStatus.of(GPU_UNITS, OwnWrites(Store[GPUUnit]()), server, clock, None)  # type: ignore[arg-type]
    again = finish(
        writer.write(known, GPUUnitStatus(phase="Progressing"), Readiness("progressing", "UnitProgressing", "not yet"))
    )
    (after,) = server.of_kind(GPU_UNITS)
    return after != known, again


@pytest.mark.parametrize("unit", CASES.values(), ids=CASES)
def test_what_says_no_more_than_not_yet_waits_a_moment(unit: Any) -> None:
    wrote, again = written(unit.object(), clock_ahead=0.5)
    assert not wrote
    assert again is not None
    assert again > 0


@mutant("controllers/ready_status.py", "if -1.0 < age < delay", "if age < delay")
@pytest.mark.parametrize("unit", CASES.values(), ids=CASES)
def test_a_clock_an_hour_behind_the_servers_does_not_silence_the_status_for_an_hour(unit: Any) -> None:
    assert written(unit.object(), clock_ahead=-3600) == (True, None)
