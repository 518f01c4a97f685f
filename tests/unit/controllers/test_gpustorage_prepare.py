"""What one reconcile does to fill a storage, by what it finds."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import yaml

from equipment.builders import a_storage, a_unit
from equipment.builders.base import Builder, new_document
from equipment.builders.product import StorageBuilder
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO, FENCE, STORAGE_FINALIZER, STORAGE_RECOVERY_NONCE
from gpu_runtime.api.v1alpha1.attachment import Attachment, attached_to
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, Prepare
from gpu_runtime.api.v1alpha1.prepare_digest import prepare_digest
from gpu_runtime.controllers.child_kinds.jobs import JOBS
from gpu_runtime.controllers.child_kinds.network import NETWORK_POLICIES
from gpu_runtime.controllers.gpustorage.copy_progress import EVERY_SECONDS
from gpu_runtime.controllers.gpustorage.resources.prepare_job import (
    job_name,
    prepare_job,
    prepare_labels,
    prepare_policy,
)
from gpu_runtime.controllers.gpuunit.resources.network_policy import network_policy
from gpu_runtime.kube.client import document_of
from unit.controllers.children import TESTDATA
from unit.controllers.table import CLOCK, SETTINGS, Row, World, check
from unit.controllers.test_gpustorage_table import CLASS, WAITS, a_claim, bound

IMAGE = {"fromImage": "filler:1", "command": ["fill"]}
COPY = {"fromStorageName": "source"}


def wanting(prepare: dict[str, Any]) -> StorageBuilder:
    storage = a_storage("data").with_uid("storage-uid").at_generation(1).size("20Gi")
    return storage.kept_by(STORAGE_FINALIZER).spec(prepare=prepare).status(claimName="data")


def job_of(storage: StorageBuilder) -> Builder:
    """The Job of the attempt that the storage asks for, as it is created."""
    asking = storage.object()
    assert asking.spec.prepare is not None
    name = job_name(asking, prepare_digest(asking))
    return Builder(document_of(JOBS, prepare_job(asking, asking.spec.prepare, name, SETTINGS))).with_uid("job-uid")


def named(storage: StorageBuilder, phase: str = "Pending", **fields: Any) -> StorageBuilder:
    """The status names the Job of the attempt."""
    names = {"jobName": job_of(storage).name, "jobUID": "job-uid", "observedDigest": prepare_digest(storage.object())}
    return storage.status(prepare={"phase": phase, **names, **fields})


def resumed(job: Builder) -> Builder:
    return job.spec(suspend=False).status(startTime="2026-01-01T00:00:00Z", active=1)


def complete(job: Builder) -> Builder:
    return resumed(job).condition("Complete", "True", "").status(completionTime="2026-01-01T00:01:00Z")


def failed(job: Builder, reason: str = "BackoffLimitExceeded", message: str = "no more tries") -> Builder:
    return resumed(job).condition("Failed", "True", reason, message)


def a_pod(job: Builder, phase: str, name: str = "prepare-pod", **container: Any) -> Builder:
    labels = prepare_labels(IMAGED.object())
    pod = Builder(new_document("v1", "Pod", name, "runtime-instance")).labelled(labels).controlled_by(job)
    state = {"name": "prepare", "state": container} if container else {"name": "prepare", "state": {"running": {}}}
    return pod.spec(nodeName="node-1").status(phase=phase, containerStatuses=[state])


def exited(code: int, message: str = "", **fields: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": message, "reason": "Error", **fields}}


CLAIM = bound(a_claim())
IMAGED, COPIED = wanting(IMAGE), wanting(COPY)
SOURCE = (
    a_storage("source").with_uid("source-uid").kept_by(STORAGE_FINALIZER).status(claimName="source", mountable=True)
)
UNIT = Attachment(unit="demo", uid="unit-uid")
TARGET = Attachment(storage="data", uid="storage-uid")
JOB, COPY_JOB = job_of(IMAGED), job_of(COPIED)
NAME, COPY_NAME = JOB.name, COPY_JOB.name
RECOVERING = named(IMAGED, "Failed", recoveryPhase="Required", message="no").annotated({STORAGE_RECOVERY_NONCE: "n1"})
RECOVERY_NAME = job_of(RECOVERING).name
POLICY = f"create NetworkPolicy {prepare_policy(IMAGED.object(), Prepare(), SETTINGS).metadata.name}"
PENDING, RUNNING = ("Pending", "StoragePreparePending"), ("Pending", "StoragePrepareRunning")
FAILED = ("Failed", "StoragePrepareFailed")
DELETED = "PersistentVolumeClaim data was deleted: nothing can fill it"


def held(storage: Builder, holder: Attachment) -> Builder:
    return storage.annotated(attached_to(holder))


def prepare_status(phase: str, storage: StorageBuilder = IMAGED, **fields: Any) -> dict[str, Any]:
    names = {"jobName": job_of(storage).name, "jobUID": "job-uid", "observedDigest": prepare_digest(storage.object())}
    return {"prepare": {"phase": phase, **names, **fields}}


ROWS: dict[str, Row] = {
    "the first attempt is created suspended, and the status names it": Row(
        [IMAGED, CLAIM, CLASS],
        [POLICY, f"create Job {NAME}", "status GPUStorage data"],
        *PENDING,
        status={**prepare_status("Pending", message="about to begin", jobUID=f"new-{NAME}-uid"), "mountable": None},
    ),
    "an attempt that the status names is resumed": Row(
        [named(IMAGED), CLAIM, CLASS, JOB],
        [f"patch Job {NAME}", "status GPUStorage data"],
        *PENDING,
        status=prepare_status("Pending", message=f"Job {NAME} has no pod yet"),
    ),
    "an attempt that the status does not name yet is not resumed": Row(
        [IMAGED, CLAIM, CLASS, JOB], ["status GPUStorage data"], *PENDING
    ),
    "a prepare needs a volume": Row(
        [IMAGED, a_claim(), CLASS],
        ["status GPUStorage data"],
        *("Pending", "StoragePending"),
        status={"prepare": {"phase": "Pending", "message": "waiting for its volume"}},
        again=300.0,
    ),
    "a prepare is the first consumer of a volume that waits for one": Row(
        [IMAGED, a_claim(), WAITS], [POLICY, f"create Job {NAME}", "status GPUStorage data"], *PENDING
    ),
    "the pod that fills the volume runs": Row(
        [named(IMAGED), CLAIM, CLASS, resumed(JOB), a_pod(JOB, "Running")],
        ["status GPUStorage data"],
        *(*RUNNING, "image filler:1 fills the volume"),
        status=prepare_status(
            "Running", message="image filler:1 fills the volume", startTime="2026-01-01T00:00:00Z"
        ),
    ),
    "a pod that cannot start says why": Row(
        [
            named(IMAGED), CLAIM, CLASS, resumed(JOB),
            a_pod(JOB, "Pending", waiting={"reason": "ImagePullBackOff", "message": "no such image"}),
        ],
        ["status GPUStorage data"],
        *(*PENDING, "container prepare: ImagePullBackOff: no such image"),
    ),
    "a pod that has ended is reported when its Job is over": Row(
        [named(IMAGED), CLAIM, CLASS, resumed(JOB), a_pod(JOB, "Failed", **exited(3, "no"))],
        ["status GPUStorage data"],
        *(*RUNNING, "image filler:1 fills the volume"),
    ),
    "a Job that ran and has no pod any more never counts as one that waits": Row(
        [named(IMAGED, "Running"), CLAIM, CLASS, resumed(JOB)], ["status GPUStorage data"], *RUNNING
    ),
    "a Job that completed fills the storage": Row(
        [named(IMAGED, "Running"), CLAIM, CLASS, complete(JOB), a_pod(JOB, "Succeeded", **exited(0))],
        ["status GPUStorage data"],
        *("Ready", "StorageReady"),
        status={
            "mountable": True,
            **prepare_status(
                "Succeeded",
                message="the volume is filled",
                startTime="2026-01-01T00:00:00Z",
                completionTime="2026-01-01T00:01:00Z",
            ),
        },
    ),
    "a failure tells the exit code and the last line of the output": Row(
        [
            named(IMAGED, "Running"), CLAIM, CLASS, failed(JOB),
            a_pod(JOB, "Failed", **exited(3, "downloading\nno space on mirror\n\n")),
        ],
        ["status GPUStorage data"],
        *(*FAILED, "container prepare exited with code 3: no space on mirror; recover the storage"),
        status=prepare_status(
            "Failed",
            message="container prepare exited with code 3: no space on mirror",
            recoveryPhase="Required",
            startTime="2026-01-01T00:00:00Z",
            completionTime="2020-01-01T00:00:00Z",
        ),
        events=["Warning StoragePrepareFailed"],
    ),
    "a failure for lack of memory is told": Row(
        [named(IMAGED), CLAIM, CLASS, failed(JOB), a_pod(JOB, "Failed", **exited(137, reason="OOMKilled"))],
        ["status GPUStorage data"],
        *(*FAILED, "container prepare exited with code 137 (OOMKilled)"),
        events=["Warning StoragePrepareFailed"],
    ),
    "a failure at the deadline tells the last words": Row(
        [
            named(IMAGED, message="Pod x cannot be scheduled: no memory"), CLAIM, CLASS,
            failed(JOB, "DeadlineExceeded", "Job was active longer than specified deadline"),
        ],
        ["status GPUStorage data"],
        *(*FAILED, "not finished within its deadline of 21600 s; last state: Pod x cannot be scheduled: no memory"),
        events=["Warning StoragePrepareFailed"],
    ),
    "a failure whose pod is gone tells what the Job says": Row(
        [named(IMAGED), CLAIM, CLASS, failed(JOB)],
        ["status GPUStorage data"],
        *(*FAILED, "no more tries"),
        events=["Warning StoragePrepareFailed"],
    ),
    "a Job that vanished has failed and is not run again": Row(
        [named(IMAGED, "Running"), CLAIM, CLASS],
        ["status GPUStorage data"],
        *(*FAILED, f"somebody deleted or suspended Job {NAME} before it was seen to finish"),
        events=["Warning StoragePrepareFailed"],
    ),
    "a Job that was made again after somebody deleted it is not resumed": Row(
        [named(IMAGED), CLAIM, CLASS, JOB.with_uid("made-again")],
        ["status GPUStorage data"],
        *(*FAILED, "somebody deleted or suspended"),
        events=["Warning StoragePrepareFailed"],
    ),
    "a Job that was suspended by hand while it ran is not resumed": Row(
        [named(IMAGED, "Running"), CLAIM, CLASS, JOB],
        ["status GPUStorage data"],
        *(*FAILED, "somebody deleted or suspended"),
        events=["Warning StoragePrepareFailed"],
    ),
    "a recovery deletes the Job that failed and begins a new one": Row(
        [RECOVERING, CLAIM, CLASS, failed(JOB)],
        [POLICY, f"delete Job {NAME}", f"create Job {RECOVERY_NAME}", "status GPUStorage data"],
        *PENDING,
        status=prepare_status(
            "Pending", RECOVERING, recoveryPhase="Running", message="about to begin", jobUID=f"new-{RECOVERY_NAME}-uid"
        ),
    ),
    "a recovery waits until the pod of the failed attempt has ended": Row(
        [
            named(RECOVERING, "Pending", recoveryPhase="Running", jobUID="new-job"), CLAIM, CLASS,
            job_of(RECOVERING).with_uid("new-job"),
            a_pod(JOB, "Running", "old-pod"),
        ],
        ["status GPUStorage data"],
        *(*PENDING, "pod old-pod of an earlier attempt is still ending"),
    ),
    "a recovery that is asked for by hand while an attempt runs waits for its end": Row(
        [named(IMAGED).annotated({STORAGE_RECOVERY_NONCE: "n1"}), CLAIM, CLASS, resumed(JOB), a_pod(JOB, "Running")],
        ["status GPUStorage data"],
        *RUNNING,
        status=prepare_status(
            "Running", message="image filler:1 fills the volume", startTime="2026-01-01T00:00:00Z",
            recoveryPhase="Running",
        ),
    ),
    "a copy whose source is missing is invalid": Row(
        [COPIED, CLAIM, CLASS],
        ["status GPUStorage data"],
        *("Failed", "StorageInvalidSpec", "spec.prepare.fromStorageName: storage source does not exist"),
        events=["Warning StorageInvalidSpec"],
    ),
    "a copy waits for a source that a unit holds": Row(
        [COPIED, CLAIM, CLASS, held(SOURCE, UNIT)],
        ["status GPUStorage data"],
        *(*PENDING, "storage source is in use by unit demo"),
    ),
    "a copy waits for a source that is not ready": Row(
        [COPIED, CLAIM, CLASS, SOURCE.status(mountable=False).condition("Ready", "False", "StoragePending", "words")],
        ["status GPUStorage data"],
        *(*PENDING, "storage source is not ready: StoragePending"),
    ),
    "a copy waits for a source that is being deleted": Row(
        [COPIED, CLAIM, CLASS, SOURCE.being_deleted()],
        ["status GPUStorage data"],
        *(*PENDING, "storage source is being deleted"),
    ),
    "a copy holds its source before it begins": Row(
        [named(COPIED), CLAIM, CLASS, SOURCE, COPY_JOB],
        ["patch GPUStorage source", f"patch Job {COPY_NAME}", "status GPUStorage data"],
        *PENDING,
    ),
    "a copy that holds its source already writes the record again before it begins": Row(
        [named(COPIED), CLAIM, CLASS, held(SOURCE, TARGET), COPY_JOB],
        ["patch GPUStorage source", f"patch Job {COPY_NAME}", "status GPUStorage data"],
        *PENDING,
    ),
    "a copy whose source was given to a unit meanwhile does not begin": Row(
        [named(COPIED), CLAIM, CLASS, held(SOURCE, UNIT), COPY_JOB],
        ["status GPUStorage data"],
        *(*PENDING, "storage source is in use by unit demo"),
        status=prepare_status(
            "Pending", COPIED, message="storage source is in use by unit demo: it is copied when nobody writes to it"
        ),
    ),
    "a copy whose source was deleted before it began waits": Row(
        [named(COPIED), CLAIM, CLASS, COPY_JOB],
        ["status GPUStorage data"],
        *(*PENDING, "storage source does not exist"),
    ),
    **{
        f"a prepare that is wrong is told: {says}": Row(
            [wanting(prepare), CLAIM, CLASS],
            ["status GPUStorage data"],
            *("Failed", "StorageInvalidSpec", says),
            events=["Warning StorageInvalidSpec"],
        )
        for prepare, says in (
            ({**IMAGE, **COPY}, "must have fromImage or fromStorageName, not both"),
            ({}, "must have fromImage or fromStorageName"),
            ({"fromStorageName": "data"}, "names this storage itself"),
        )
    },
    "a deleted storage ends its prepare before its claim goes": Row(
        [named(IMAGED).being_deleted(), CLAIM, resumed(JOB), a_pod(JOB, "Running")],
        [f"delete Job {NAME}", "status GPUStorage data"],
        *("Pending", "StorageDeleting", "waiting until the pod that fills it is gone"),
        again=15.0,
    ),
    "a copy whose own claim somebody deleted ends, so that its source is free again": Row(
        [named(COPIED), CLAIM.being_deleted(), CLASS, held(SOURCE, TARGET), resumed(COPY_JOB)],
        [f"delete Job {COPY_NAME}", "status GPUStorage data"],
        *("Failed", "StorageClaimLost"),
        status={"prepare": {"phase": "Failed", "message": DELETED}},
        events=["Warning StorageClaimLost"],
    ),
    "a prepare whose claim is gone does not wait for it": Row(
        [named(COPIED), CLASS, held(SOURCE, TARGET), COPY_JOB],
        [f"delete Job {COPY_NAME}", "status GPUStorage data"],
        *("Failed", "StorageClaimLost"),
        status={"prepare": {"phase": "Failed", "message": DELETED}},
        events=["Warning StorageClaimLost"],
    ),
    "a success stays one when somebody deletes the claim": Row(
        [named(COPIED, "Succeeded", message="the volume is filled"), CLAIM.being_deleted(), CLASS, complete(COPY_JOB)],
        ["status GPUStorage data"],
        *("Failed", "StorageClaimLost"),
        status=prepare_status("Succeeded", COPIED, message="the volume is filled"),
        events=["Warning StorageClaimLost"],
    ),
}  # fmt: skip


@mutant("controllers/gpustorage/prepare.py", "if not attempt.is_recorded:", "if False:")
@mutant("controllers/gpustorage/prepare.py", "if attempt.ran:", "if False:")
@mutant(
    "controllers/gpustorage/prepare.py",
    "if earlier := await self._working_pods(storage, but_of=job):",
    "if earlier := list[PodView]():",
)
@mutant(
    "controllers/gpustorage/copy_source.py", "if holder is not None and not _is_held_by(holder, target):", "if False:"
)
@mutant("controllers/gpustorage/reconcile.py", "if isinstance(claimed.blocked, ClaimDeleted):", "if False:")
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_reconcile(row: Row) -> None:
    await check("gpustorage", "GPUStorage", row)


@mutant("controllers/gpustorage/prepare_status.py", 'if before.phase == "Succeeded":', "if False:")
async def test_a_success_is_final_even_if_a_recovery_is_asked_for_by_hand() -> None:
    storage = named(IMAGED, "Succeeded").annotated({STORAGE_RECOVERY_NONCE: "n1"})
    world = World(Row([storage, CLAIM, CLASS]))
    await world.reconcile("gpustorage", storage.object().metadata.key)
    assert world.api.writes == ["status GPUStorage data"]
    assert world.api.of_kind("Job") == []


async def test_a_failure_is_final_until_a_recovery_is_asked_for() -> None:
    storage = named(IMAGED, "Failed", message="no")
    world = World(Row([storage, CLAIM, CLASS]))
    for _ in range(3):
        await world.reconcile("gpustorage", storage.object().metadata.key)
        world.api.fill(world.manager)
    assert world.api.of_kind("Job") == []


async def test_the_record_of_the_source_names_the_target_and_changes_each_time() -> None:
    world = World(Row([named(COPIED), CLAIM, CLASS, SOURCE, COPY_JOB]))
    await world.reconcile("gpustorage", COPIED.object().metadata.key)
    found = world.api.find("GPUStorage", "source")
    assert found is not None
    notes = found["metadata"]["annotations"]
    assert json.loads(notes[ATTACHED_TO]).items() >= {"storage": "data", "uid": "storage-uid"}.items()
    assert notes[FENCE]


@mutant("controllers/gpustorage/prepare.py", '"metadata": identity(job.metadata), "spec"', '"spec"')
async def test_a_job_that_was_touched_since_it_was_seen_is_not_resumed() -> None:
    world = World(Row([named(COPIED), CLAIM, CLASS, SOURCE, COPY_JOB]))
    world.api.put(COPY_JOB.annotated({FENCE: "freed"}))  # the caches do not show it
    with pytest.raises(Exception, match="resourceVersion"):
        await world.reconcile("gpustorage", COPIED.object().metadata.key)
    found = world.api.find("Job", COPY_NAME)
    assert found is not None
    assert found["spec"]["suspend"] is True


async def test_the_progress_of_a_copy_is_read_every_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    running = a_pod(COPY_JOB, "Running")
    world = World(Row([named(COPIED), CLAIM, CLASS, held(SOURCE, TARGET), resumed(COPY_JOB), running]))

    async def copied() -> tuple[int, int, int, int]:
        result = await world.reconcile("gpustorage", COPIED.object().metadata.key)
        assert result.requeue_after == EVERY_SECONDS
        world.api.fill(world.manager)
        seen = world.api.find("GPUStorage", "data")
        assert seen is not None
        status = seen["status"]["prepare"]
        return tuple(status.get(name, 0) for name in ("filesCopied", "filesTotal", "bytesCopied", "bytesTotal"))

    assert await copied() == (0, 0, 0, 0)  # its log cannot be read yet
    world.api.logs["prepare-pod"] = "copied 1 of 9 files, 1 B of 9 B (bytes 1/9)\nskipped socket 'x'\ncopied 2 of"
    assert await copied() == (0, 0, 0, 0)
    monkeypatch.setattr(CLOCK, "seconds", CLOCK.seconds + EVERY_SECONDS)
    assert await copied() == (1, 9, 1, 9)
    world.api.logs["prepare-pod"] = "done: copied 9 files, 9 B (bytes 9/9)\n"
    world.api.put(complete(COPY_JOB))
    world.api.put(a_pod(COPY_JOB, "Succeeded", **exited(0)))
    world.api.fill(world.manager)
    await world.reconcile("gpustorage", COPIED.object().metadata.key)
    seen = world.api.find("GPUStorage", "data")
    assert seen is not None
    assert seen["status"]["prepare"]["filesCopied"] == 9
    assert seen["status"]["phase"] == "Ready"


async def test_a_copy_begins_by_itself_when_its_source_is_free() -> None:
    world = World(Row([COPIED, CLAIM, CLASS, held(SOURCE, UNIT)]))
    storages = [
        source
        for source in world.controllers["gpustorage"]._sources
        if any(isinstance(each, GPUStorage) for each in source.store)
    ]
    woken = {key for source in storages for key in source.keys(SOURCE.object())}
    assert COPIED.object().metadata.key in woken


def test_names_of_jobs_never_collide() -> None:
    long = "s" * 62
    storages = [a_storage(long + letter).with_uid(f"uid-{letter}").spec(prepare=COPY).object() for letter in "ab"]
    names = {job_name(storage, digest) for storage in storages for digest in ("0" * 12, "0" * 11 + "1")}
    assert len(names) == 4
    assert all(len(name) <= 63 for name in names)


def test_a_recovery_clears_the_volume_and_a_first_attempt_does_not() -> None:
    def words(storage: StorageBuilder) -> list[list[str]]:
        spec = job_of(storage).document()["spec"]["template"]["spec"]
        return [each["command"] for each in (*spec.get("initContainers", []), *spec["containers"])]

    again = {STORAGE_RECOVERY_NONCE: "n1"}
    assert words(IMAGED) == [["fill"]]
    assert words(IMAGED.annotated(again)) == [["gpu-runtime", "files", "clear", "/workspace"], ["fill"]]
    assert words(COPIED) == [["gpu-runtime", "files", "copy", "/source", "/target"]]
    assert words(COPIED.annotated(again)) == [["gpu-runtime", "files", "copy", "/source", "/target", "--clear"]]


def test_a_copy_reaches_nobody_and_an_image_what_a_unit_reaches() -> None:
    def policy(storage: StorageBuilder) -> Any:
        asking = storage.object()
        assert asking.spec.prepare is not None
        return prepare_policy(asking, asking.spec.prepare, SETTINGS).spec

    assert (policy(COPIED).policyTypes, policy(COPIED).egress) == (["Ingress", "Egress"], [])
    unit = network_policy(a_unit("demo").object(), SETTINGS)
    assert unit is not None
    assert policy(IMAGED).egress == unit.spec.egress


def test_a_policy_selects_the_pods_of_the_job() -> None:
    pods = job_of(IMAGED).document()["spec"]["template"]["metadata"]["labels"]
    assert prepare_policy(IMAGED.object(), Prepare(), SETTINGS).spec.podSelector.matchLabels.items() <= pods.items()


@pytest.mark.parametrize(
    ("name", "storage"),
    [
        ("prepare-image", IMAGED.annotated({STORAGE_RECOVERY_NONCE: "n1"})),
        ("prepare-copy", COPIED),
    ],
)
def test_the_children_that_fill_a_storage_are_these(name: str, storage: StorageBuilder) -> None:
    asking = storage.object()
    assert asking.spec.prepare is not None
    policy = document_of(NETWORK_POLICIES, prepare_policy(asking, asking.spec.prepare, SETTINGS))
    made = prepare_job(asking, asking.spec.prepare, job_name(asking, "0" * 12), SETTINGS)
    shown = yaml.safe_dump_all([policy, document_of(JOBS, made)], sort_keys=False, width=120)
    path = TESTDATA / f"{name}.out.yaml"
    if os.environ.get("GPU_RUNTIME_UPDATE_GOLDEN"):
        path.write_text(shown)
    assert shown == path.read_text()
