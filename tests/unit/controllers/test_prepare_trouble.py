"""Filling a storage while caches are behind, others write too, and programs and nodes misbehave."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from equipment.clock import FakeClock
from equipment.memory_api import MemoryApi
from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO
from gpu_runtime.api.v1alpha1.attachment import Attachment
from gpu_runtime.controllers.gpustorage import copy_progress
from gpu_runtime.controllers.gpustorage.copy_progress import EVERY_SECONDS, CopyProgress
from gpu_runtime.controllers.gpustorage.prepare_status import LONGEST
from gpu_runtime.kube import Conflict
from unit.controllers.table import CLOCK, Row, World
from unit.controllers.test_gpustorage_prepare import (
    CLAIM,
    COPIED,
    COPY_JOB,
    COPY_NAME,
    IMAGED,
    JOB,
    SOURCE,
    UNIT,
    a_pod,
    exited,
    failed,
    held,
    named,
    resumed,
)
from unit.controllers.test_gpustorage_table import CLASS


def prepare_status(world: World) -> dict[str, Any]:
    found = world.api.find("GPUStorage", "data")
    assert found is not None
    status: dict[str, Any] = found["status"]["prepare"]
    return status


@mutant("controllers/gpustorage/copy_progress.py", "await self.read(pod) or known", "await self.read(pod)")
async def test_a_log_that_cannot_be_read_for_a_while_takes_no_progress_back() -> None:
    api, clock = MemoryApi(CLOCK), FakeClock()
    client: Any = api
    progress, pod = CopyProgress(client, clock), Key("runtime-instance", "prepare-pod")
    api.logs[pod.name] = "copied 1 of 9 files, 1 B of 9 B (bytes 1/9)\n"
    known = await progress.of("storage-uid", pod)
    assert known is not None
    del api.logs[pod.name]
    clock.seconds += EVERY_SECONDS
    assert await progress.of("storage-uid", pod) == known


@mutant("controllers/gpustorage/copy_progress.py", "asyncio.timeout(ANSWER_SECONDS)", "asyncio.timeout(None)")
async def test_a_node_that_does_not_answer_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_progress, "ANSWER_SECONDS", 0.01)
    api: Any = MemoryApi(CLOCK)

    async def silent(*_: Any, **__: Any) -> Any:
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(api, "request", silent)
    async with asyncio.timeout(30):
        assert await CopyProgress(api, CLOCK).of("storage-uid", Key("runtime-instance", "prepare-pod")) is None


@mutant("controllers/gpustorage/prepare.py", "if job is None and attempt.is_recorded:", "if False:")
async def test_a_job_that_the_cache_does_not_show_yet_has_not_vanished() -> None:
    storage = named(IMAGED, "Running")
    world = World(Row([storage, CLAIM, CLASS]))
    world.api.put(resumed(JOB))
    await world.reconcile("gpustorage", storage.object().metadata.key)
    assert prepare_status(world)["phase"] != "Failed"


@mutant("controllers/gpustorage/prepare.py", "await self._list(PODS, storage) if job.is_over else ", "")
async def test_the_cause_of_a_failure_comes_from_a_pod_that_the_cache_does_not_show_yet() -> None:
    storage = named(IMAGED, "Running")
    world = World(Row([storage, CLAIM, CLASS, failed(JOB)]))
    world.api.put(a_pod(JOB, "Failed", **exited(7, "no space")))
    await world.reconcile("gpustorage", storage.object().metadata.key)
    assert "no space" in prepare_status(world)["message"]


@mutant("controllers/gpustorage/prepare.py", "            check_ownership(JOBS, desired, live)\n", "")
@mutant("controllers/gpustorage/prepare.py", "or not is_controlled_by(job.metadata, storage.metadata):", "or False:")
@pytest.mark.parametrize("seen", [True, False])
async def test_a_job_of_somebody_else_is_not_taken_for_ours(seen: bool) -> None:
    foreign = JOB.metadata(ownerReferences=[]).with_uid("foreign-uid")
    world = World(Row([IMAGED, CLAIM, CLASS, *([foreign] if seen else [])]))
    world.api.put(foreign)
    await world.reconcile("gpustorage", IMAGED.object().metadata.key)
    assert not prepare_status(world).get("jobUID")


@mutant("controllers/gpustorage/prepare.py", "if earlier.is_over:", "if True:")
async def test_a_job_that_is_at_work_is_not_deleted_for_another_attempt() -> None:
    other = resumed(JOB).metadata(name="prepare-later").with_uid("later-uid")
    world = World(Row([IMAGED, CLAIM, CLASS, other]))
    await world.reconcile("gpustorage", IMAGED.object().metadata.key)
    assert world.api.find("Job", "prepare-later") is not None


@mutant("controllers/gpustorage/prepare.py", ', propagation="Background"', "")
async def test_the_pods_of_a_job_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = named(IMAGED).being_deleted()
    world = World(Row([storage, CLAIM, CLASS, resumed(JOB)]))
    delete, asked = world.api.delete, list[Any]()

    async def noted(resource: Any, key: Key, **options: Any) -> None:
        asked.append((resource.kind, options.get("uid"), options.get("propagation")))
        await delete(resource, key, **options)

    monkeypatch.setattr(world.api, "delete", noted)
    await world.reconcile("gpustorage", storage.object().metadata.key)
    assert asked[0] == ("Job", "job-uid", "Background")


@mutant("controllers/gpustorage/reconcile.py", "recorded = bool(storage.status.claimName)", "recorded = True")
async def test_nothing_is_put_on_a_volume_before_the_status_names_its_claim() -> None:
    storage = IMAGED.status(claimName="")
    world = World(Row([storage, CLAIM, CLASS]))
    await world.reconcile("gpustorage", storage.object().metadata.key)
    assert world.api.of_kind("Job") == []


@mutant(
    "controllers/gpustorage/prepare_status.py",
    "(*pod.status.initContainerStatuses, *pod.status.containerStatuses)",
    "pod.status.containerStatuses",
)
async def test_a_recovery_that_cannot_empty_the_volume_says_so() -> None:
    pod = a_pod(JOB, "Failed", waiting={"reason": "PodInitializing"})
    pod = pod.status(initContainerStatuses=[{"name": "clear", "state": exited(1, "removed a\ncannot remove 'x'")}])
    world = World(Row([named(IMAGED, "Running"), CLAIM, CLASS, failed(JOB), pod]))
    await world.reconcile("gpustorage", IMAGED.object().metadata.key)
    message = prepare_status(world)["message"]
    assert "container clear" in message
    assert message.endswith("cannot remove 'x'")
    assert "removed a" not in message


@mutant("controllers/gpustorage/prepare_status.py", "if len(text) <= LONGEST", "if True")
async def test_the_last_words_of_a_program_fit_into_a_status() -> None:
    world = World(
        Row([named(IMAGED, "Running"), CLAIM, CLASS, failed(JOB), a_pod(JOB, "Failed", **exited(1, "x" * 9000))])
    )
    await world.reconcile("gpustorage", IMAGED.object().metadata.key)
    assert len(prepare_status(world)["message"]) <= LONGEST


@mutant(
    "controllers/gpustorage/copy_source.py",
    "bool(holder.uid) and (holder.storage, holder.uid) == (target.metadata.name, target.metadata.uid)",
    "holder.storage == target.metadata.name",
)
async def test_a_source_that_an_earlier_storage_of_the_name_holds_is_busy() -> None:
    earlier = Attachment(storage="data", uid="earlier-uid")
    world = World(Row([named(COPIED), CLAIM, CLASS, held(SOURCE, earlier), COPY_JOB]))
    await world.reconcile("gpustorage", COPIED.object().metadata.key)
    found = world.api.find("Job", COPY_NAME)
    assert found is not None
    assert found["spec"]["suspend"] is True


@mutant(
    "controllers/gpustorage/copy_source.py",
    '{**identity(source.metadata), "annotations": notes}',
    '{"annotations": notes}',
)
async def test_a_source_that_a_unit_gets_meanwhile_is_not_taken_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(Row([named(COPIED), CLAIM, CLASS, SOURCE, COPY_JOB]))
    patch = world.api.patch

    async def rival(resource: Any, key: Key, changes: Any) -> Any:
        if key.name == "source":
            world.api.put(held(SOURCE, UNIT))
        return await patch(resource, key, changes)

    monkeypatch.setattr(world.api, "patch", rival)
    with pytest.raises(Conflict):
        await world.reconcile("gpustorage", COPIED.object().metadata.key)
    found = world.api.find("GPUStorage", "source")
    assert found is not None
    assert json.loads(found["metadata"]["annotations"][ATTACHED_TO])["unit"] == "demo"
