"""Filling a storage on an API server, real or embedded, with its own controller of Jobs. No node runs the pods."""

from __future__ import annotations

from typing import Any

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.api.v1alpha1.annotations import STORAGE_RECOVERY_NONCE
from gpu_runtime.controllers.child_kinds.jobs import JOBS
from gpu_runtime.controllers.child_kinds.workloads import PODS, PodView
from gpu_runtime.controllers.labels import CONTROLLED_BY
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.kube import Client, Query
from kube.runtime.storage_world import StorageWorld, reconciling
from kube.runtime.test_storages import controllers, installed, world

__all__ = ["controllers", "installed", "world"]

PREPARE = {"fromImage": "filler:1", "command": ["fill"]}


async def pods(world: StorageWorld) -> list[PodView]:
    selector = f"{CONTROLLED_BY}={(await world.storage()).metadata.uid}"
    return (await world.client.list(Query(PODS, world.namespace, labels=selector))).items


async def working_pod(world: StorageWorld) -> PodView:
    """The one pod that has not ended."""

    async def probe() -> PodView:
        found = [pod for pod in await pods(world) if pod.status.phase not in ("Succeeded", "Failed")]
        assert len(found) == 1, found
        return found[0]

    return await eventually(probe, what="one pod fills the volume")


async def report(world: StorageWorld, pod: PodView, phase: str, **state: Any) -> None:
    """What a node says about the pod."""
    container = {"name": "prepare", "image": "x", "imageID": "x", "ready": False, "restartCount": 0, "state": state}
    status = {"phase": phase, "containerStatuses": [container]}
    await world.client.patch(PODS, pod.metadata.key, {"status": status}, subresource="status")


async def test_a_failure_is_told_in_words_and_a_recovery_fills_the_volume(world: StorageWorld, proxied: Client) -> None:
    await world.add_class()
    async with reconciling(proxied):
        await world.client.create(GPU_STORAGES, world.a_storage().spec(prepare=PREPARE).document())
        await world.add_volume()
        first = await working_pod(world)
        await report(world, first, "Running", running={"startedAt": "2026-01-01T00:00:00Z"})
        running = (await world.becomes("StoragePrepareRunning")).status
        assert running.prepare is not None
        assert (running.prepare.phase, running.mountable) == ("Running", False)
        ended = {"exitCode": 3, "reason": "Error", "message": "downloading\nthe mirror is away\n"}
        await report(world, first, "Failed", terminated=ended)
        failed = await world.becomes("StoragePrepareFailed", "container prepare exited with code 3: the mirror is away")
        assert failed.status.prepare is not None
        assert (failed.status.phase, failed.status.prepare.recoveryPhase) == ("Failed", "Required")
        assert failed.status.prepare.completionTime is not None

        await world.change({"metadata": {"annotations": {STORAGE_RECOVERY_NONCE: "again"}}})
        second = await working_pod(world)
        await report(world, second, "Succeeded", terminated={"exitCode": 0, "reason": "Completed"})
        filled = (await world.becomes("StorageReady")).status
        assert filled.prepare is not None
        assert (filled.prepare.phase, filled.prepare.recoveryPhase) == ("Succeeded", "Succeeded")
        assert filled.mountable
        jobs = await world.client.list(Query(JOBS, world.namespace))
        assert [job.metadata.name for job in jobs.items] == [filled.prepare.jobName]

        await world.client.delete(GPU_STORAGES, world.key)
        await world.gone()


@mutant("local/controllers/job/reconcile.py", "await self._release(self._strays(key, job))", "pass")
async def test_a_storage_that_is_deleted_while_it_is_filled_ends_its_pod_before_its_claim_goes(
    world: StorageWorld, proxied: Client
) -> None:
    await world.add_class()
    async with reconciling(proxied):
        await world.client.create(GPU_STORAGES, world.a_storage().spec(prepare=PREPARE).document())
        await world.add_volume()
        await working_pod(world)
        await world.client.delete(GPU_STORAGES, world.key)
        await world.gone()
        assert (await world.client.list(Query(JOBS, world.namespace))).items == []


async def test_a_job_that_is_deleted_by_hand_has_failed_and_is_not_made_again(
    world: StorageWorld, proxied: Client
) -> None:
    await world.add_class()
    async with reconciling(proxied):
        await world.client.create(GPU_STORAGES, world.a_storage().spec(prepare=PREPARE).document())
        await world.add_volume()
        pod = await working_pod(world)
        await report(world, pod, "Running", running={"startedAt": "2026-01-01T00:00:00Z"})
        prepare = (await world.becomes("StoragePrepareRunning")).status.prepare
        assert prepare is not None
        job = next(each for each in (await world.client.list(Query(JOBS, world.namespace))).items)
        await world.client.delete(JOBS, job.metadata.key, propagation="Background")
        await world.becomes("StoragePrepareFailed", f"somebody deleted or suspended Job {prepare.jobName}")
        assert (await world.client.list(Query(JOBS, world.namespace))).items == []
