"""A unit that mounts storages: it holds them by what the server says now, not by what a cache shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equipment.builders import a_storage, a_unit
from equipment.builders.base import Builder
from equipment.memory_api import MemoryApi
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to
from gpu_runtime.controllers.gpuunit.storage_gate import StorageGate
from gpu_runtime.controllers.readiness import Blocked
from unit.controllers.table import CLOCK

UNIT = a_unit("demo").with_uid("unit-uid").at_generation(1).mounting("two", "/two").mounting("one", "/one")
RIVAL = attached_to(Attachment(unit="other", uid="other-uid"))
ONE, TWO = (a_storage(name).status(mountable=True) for name in ("one", "two"))


def an_api(*there: Builder) -> MemoryApi:
    api = MemoryApi(CLOCK)
    for each in there:
        api.put(each)
    return api


async def open_gate(api: Any) -> None:
    await StorageGate(api, CLOCK).open(UNIT.object())


def holder_of(api: MemoryApi, name: str) -> str:
    found = api.find("GPUStorage", name)
    assert found is not None
    return str(json.loads(found["metadata"]["annotations"][ATTACHED_TO])["unit"])


@mutant("controllers/gpuunit/storage_gate.py", "sorted(mount.name for mount in", "list(mount.name for mount in")
async def test_two_units_that_want_the_same_storages_meet_at_the_same_one_first() -> None:
    api = an_api(UNIT, ONE, TWO)
    await open_gate(api)
    assert api.writes == ["patch GPUStorage one", "patch GPUStorage two"]
    assert (holder_of(api, "one"), holder_of(api, "two")) == ("demo", "demo")


@mutant("controllers/gpuunit/storage_gate.py", '{**identity(storage.metadata), "annotations"', '{"annotations"')
async def test_a_storage_that_another_unit_gets_meanwhile_stays_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    api = an_api(UNIT, ONE, TWO)
    patch = api.patch

    async def rival(resource: Any, key: Key, changes: Any) -> Any:
        api.put(ONE.annotated(RIVAL))
        return await patch(resource, key, changes)

    monkeypatch.setattr(api, "patch", rival)
    with pytest.raises(Exception, match="resourceVersion"):
        await open_gate(api)
    assert holder_of(api, "one") == "other"


@mutant(
    "controllers/gpuunit/storage_gate.py",
    "(live.metadata.uid, live.metadata.generation) != (unit.metadata.uid, unit.metadata.generation)",
    "live.metadata.uid != unit.metadata.uid",
)
@pytest.mark.parametrize("there", [UNIT.at_generation(2), UNIT.with_uid("later-uid")])
async def test_a_unit_that_is_no_longer_as_the_cache_shows_it_gets_nothing(there: Builder) -> None:
    api = an_api(there, ONE, TWO)
    with pytest.raises(Blocked, match="the unit has just changed"):
        await open_gate(api)
    assert api.writes == []
