"""The storage scene with copies: storage `t` is filled from `s1`, which the units want too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import structlog

from equipment.memory_api import Document
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import STORAGE_RECOVERY_NONCE
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, GPUStorageSpec, Prepare
from gpu_runtime.api.v1alpha1.labels import STORAGE_PREPARE, UNIT
from gpu_runtime.kube.client import document_of
from gpu_runtime.service.cluster import GPU_STORAGES
from unit.service.exploration.memory import Process, Turn
from unit.service.exploration.storage_cluster import _child, claims_of
from unit.service.exploration.storage_scene import HERE, StorageScene, _drop

SOURCE, TARGET = "s1", "t"
ENDED = ("Succeeded", "Failed")


class CopyScene(StorageScene):
    """Kubernetes also plays Jobs: one pod each, which fails the first time that it runs for the storage."""

    def __init__(self) -> None:
        super().__init__()
        self.started: set[str] = set()
        """UIDs and names of Jobs that have had a pod. Each attempt runs once."""
        self.failed = False
        self.requests |= {
            "create t": self.fill,
            "recover t": self.recover,
            "delete the Job of t": self.delete_job,
            "delete t": lambda: self.delete(GPU_STORAGES, TARGET),
        }
        self.loops |= {
            "storage t": lambda: self.reconcile_one("gpustorage", TARGET),
            "storage t again": lambda: self.reconcile_one("gpustorage", TARGET),
            "jobs": self.run_jobs,
            "pods of jobs": self.end_pods,
        }

    def at_rest(self) -> tuple[Callable[[], Awaitable[Any]], ...]:
        return (*super().at_rest(), self.run_jobs, self.end_pods)

    def writers(self) -> dict[str, list[str]]:
        """By claim: the units, and `storage t`, with a pod that mounts it and has not ended."""
        writers: dict[str, list[str]] = {}
        for pod in self.api.of_kind("Pod"):
            if pod["status"].get("phase") in ENDED:
                continue
            labels = pod["metadata"]["labels"]
            name = labels.get(UNIT) or f"storage {labels[STORAGE_PREPARE]}"
            for claim in claims_of(pod):
                writers.setdefault(claim, []).append(name)
        return writers

    def _holder(self, name: str) -> str | None:
        found = [each for each in self._storages() if each.metadata.name == name]
        holder = attachment_of(found[0].metadata) if found else None
        if holder is None:
            # A volume that is being filled needs no record of its own: no unit starts before it is filled.
            return f"storage {TARGET}" if name == TARGET and found else None
        return f"storage {holder.storage}" if holder.storage else holder.unit

    def check_end(self) -> None:
        super().check_end()
        target = self.api.find("GPUStorage", TARGET)
        phase = target["status"]["prepare"]["phase"] if target is not None else "Succeeded"
        if phase not in ("Succeeded", "Failed") and self._holder(SOURCE) in (None, f"storage {TARGET}"):
            raise self._violation(f"the copy is {phase}, and its source is free")

    # Requests.

    async def fill(self) -> None:
        await Turn("make t")
        spec = GPUStorageSpec(size="1Gi", prepare=Prepare(fromStorageName=SOURCE))
        storage = GPUStorage(metadata=ObjectMeta(name=TARGET, namespace=HERE), spec=spec)
        if self.api.find("GPUStorage", TARGET) is None:
            self.api.add(document_of(GPU_STORAGES, storage))

    async def recover(self) -> None:
        await Turn("recover t")
        target = self.api.find("GPUStorage", TARGET)
        if target is None or target["status"].get("prepare", {}).get("phase") != "Failed":
            return
        notes = {**target["metadata"].get("annotations", {}), STORAGE_RECOVERY_NONCE: "again"}
        self.api.change(target, metadata={**target["metadata"], "annotations": notes})

    async def delete_job(self) -> None:
        await Turn("delete the Job of t")
        for job in self.api.of_kind("Job"):
            self.api.drop(job)

    # The controller of Jobs, and a kubelet for their pods.

    async def run_jobs(self) -> None:
        await self.kubernetes._play("Job", self._run_job)

    async def end_pods(self) -> None:
        await self.kubernetes._play("Pod", self._end_pod)

    def _run_job(self, job: Document) -> None:
        pods, status = self.kubernetes._owned("Pod", job), job.get("status") or {}
        if job["spec"].get("suspend") or any(
            each["type"] in ("Complete", "Failed") for each in status.get("conditions", [])
        ):
            return
        if not pods:
            name = job["metadata"]["name"]
            if name in self.started:
                raise self._violation(f"the attempt of {name} runs a second time")
            self.started.add(name)
            self.api.add(_child(job, "Pod", f"{name}-pod", job["spec"]["template"]["spec"]))
        elif (phase := pods[0]["status"].get("phase")) in ENDED:
            kind = "Complete" if phase == "Succeeded" else "Failed"
            condition = {"type": kind, "status": "True", "reason": "Played"}
            self.api.change(job, status={**status, "conditions": [condition]})

    def _end_pod(self, pod: Document) -> None:
        owner = pod["metadata"]["ownerReferences"][0]
        if owner["kind"] != "Job" or pod["status"].get("phase") in ENDED:
            return
        if not any(each["metadata"]["uid"] == owner["uid"] for each in self.api.of_kind("Job")):
            self.api.drop(pod)  # its Job is gone
            return
        phase, self.failed = ("Succeeded" if self.failed else "Failed"), True
        self.api.change(pod, status={"phase": phase})


def random_copy_schedule(seed: int) -> int:
    """As `random_storage_schedule`, with copies."""
    structlog.configure(processors=[_drop])
    rng = Random(seed)
    scene = CopyScene()
    others = sorted(set(scene.requests) - {"create t"})
    requests = [*rng.sample(others, rng.randint(2, 6)), "create t"]
    interrupted: list[Process] = []
    for _ in range(rng.randint(20, 50)):
        choice = rng.random()
        if requests and choice < 0.15:
            name = requests.pop()
            process = Process(name, scene.requests[name])
        elif interrupted and choice < 0.35:
            process = interrupted.pop(rng.randrange(len(interrupted)))
        else:
            name = rng.choice(["storage t", "storage t again", "jobs", "pods of jobs", *sorted(scene.loops)])
            process = Process(name, scene.loops[name])
        until = rng.randint(1, 12) if len(interrupted) < 3 and rng.random() < 0.4 else 1_000
        while not process.done and until:
            scene.step(process)
            until -= 1
        if not process.done and rng.random() < 0.8:
            interrupted.append(process)
    for process in interrupted:
        scene.run(process)
    scene.rest()
    scene.check_end()
    return len(scene.trace)
