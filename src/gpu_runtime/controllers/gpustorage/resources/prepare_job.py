"""The Job that fills the volume of a storage. Pure: same input, same bytes."""

from __future__ import annotations

from gpu_runtime.api.meta.names import derived
from gpu_runtime.api.meta.object import ObjectMeta, controller_reference
from gpu_runtime.api.v1alpha1.annotations import STORAGE_RECOVERY_NONCE
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, Prepare
from gpu_runtime.api.v1alpha1.labels import GPU_STORAGE_APP, STORAGE_PREPARE
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.child_kinds import pod_template as pod
from gpu_runtime.controllers.child_kinds.jobs import Job, JobSpec
from gpu_runtime.controllers.labels import CONTROLLED_BY, child_labels
from gpu_runtime.controllers.product_kinds import GPU_STORAGES

CONTAINER = "prepare"
CLEAR_CONTAINER = "clear"
WORKSPACE, SOURCE, TARGET = "/workspace", "/source", "/target"
GRACE_SECONDS = 5
ROOT = 0
SIZE = pod.Resources(requests={"cpu": "100m", "memory": "128Mi"})


def job_name(storage: GPUStorage, digest: str) -> str:
    """A name that no other storage and no other attempt has, however long the storage's name is."""
    return derived("prepare", storage.metadata.uid, digest)


def is_recovery(storage: GPUStorage) -> bool:
    """Whether an earlier attempt may have left files behind."""
    return STORAGE_RECOVERY_NONCE in storage.metadata.annotations


def prepare_labels(storage: GPUStorage) -> dict[str, str]:
    """Labels of the Job and its pods."""
    labels = child_labels(GPU_STORAGE_APP, STORAGE_PREPARE, storage.metadata.name)
    return {**labels, CONTROLLED_BY: storage.metadata.uid}


def prepare_job(storage: GPUStorage, prepare: Prepare, name: str, settings: ControllerManagerSettings) -> Job:
    """The Job as it is created: suspended.

    A creation that comes late, when the source belongs to somebody else or the storage is filled already, then starts
    nothing. The one that is to run is resumed, by its version.
    """
    meta = storage.metadata
    return Job(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            labels=prepare_labels(storage),
            ownerReferences=[controller_reference(GPU_STORAGES.api_version, GPU_STORAGES.kind, meta)],
        ),
        spec=JobSpec(
            suspend=True,
            backoffLimit=0,  # a second run would find the files of the first
            podReplacementPolicy="Failed",  # never two pods that write
            activeDeadlineSeconds=settings.storage.prepareDeadlineSeconds,
            template=pod.PodTemplate(
                metadata=pod.TemplateMeta(labels=prepare_labels(storage)),
                spec=_copying_pod(storage, prepare.fromStorageName, settings)
                if prepare.fromStorageName is not None
                else _image_pod(storage, prepare, settings),
            ),
        ),
    )


def _image_pod(storage: GPUStorage, prepare: Prepare, settings: ControllerManagerSettings) -> pod.PodSpec:
    """The user's image. A recovery empties the volume first, with an image of ours."""
    mounts = [pod.VolumeMount(name="target", mountPath=WORKSPACE)]
    clear = _ours(CLEAR_CONTAINER, ["clear", WORKSPACE], mounts, settings)
    fill = pod.Container(
        name=CONTAINER,
        image=prepare.fromImage or "",
        imagePullPolicy="IfNotPresent",
        command=prepare.command,
        args=prepare.args,
        resources=SIZE,
        securityContext=_security(),
        volumeMounts=mounts,
        terminationMessagePolicy="FallbackToLogsOnError",
    )
    volumes = [_volume("target", storage.metadata.name)]
    return _pod([fill], volumes, settings, first=[clear] if is_recovery(storage) else [])


def _copying_pod(storage: GPUStorage, source: str, settings: ControllerManagerSettings) -> pod.PodSpec:
    mounts = [
        pod.VolumeMount(name="source", mountPath=SOURCE, readOnly=True),
        pod.VolumeMount(name="target", mountPath=TARGET),
    ]
    words = ["copy", SOURCE, TARGET, *(["--clear"] if is_recovery(storage) else [])]
    volumes = [_volume("source", source, read_only=True), _volume("target", storage.metadata.name)]
    return _pod([_ours(CONTAINER, words, mounts, settings)], volumes, settings)


def _ours(
    name: str, words: list[str], mounts: list[pod.VolumeMount], settings: ControllerManagerSettings
) -> pod.Container:
    """A container that runs `gpu-runtime files` as root: the files may belong to anybody, and keep their owners."""
    return pod.Container(
        name=name,
        image=settings.storage.image,
        imagePullPolicy="IfNotPresent",
        command=["gpu-runtime", "files", *words],
        resources=SIZE,
        securityContext=_security(ROOT),
        volumeMounts=mounts,
        terminationMessagePolicy="FallbackToLogsOnError",
    )


def _pod(
    containers: list[pod.Container],
    volumes: list[pod.Volume],
    settings: ControllerManagerSettings,
    first: list[pod.Container] | None = None,
) -> pod.PodSpec:
    return pod.PodSpec(
        initContainers=first or [],
        containers=containers,
        restartPolicy="Never",
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        terminationGracePeriodSeconds=GRACE_SECONDS,
        priorityClassName=settings.units.priorityClassName,
        volumes=volumes,
    )


def _security(user: int | None = None) -> pod.ContainerSecurity:
    return pod.ContainerSecurity(
        allowPrivilegeEscalation=False,
        runAsUser=user,
        seccompProfile=pod.SeccompProfile(type="RuntimeDefault"),
    )


def _volume(name: str, claim: str, *, read_only: bool = False) -> pod.Volume:
    return pod.Volume(name=name, persistentVolumeClaim=pod.ClaimVolume(claimName=claim, readOnly=read_only))
