"""The Job that fills the volume of a storage, and what its pod may reach. Pure: same input, same bytes."""

from __future__ import annotations

from gpu_runtime.api.meta.names import derived
from gpu_runtime.api.meta.object import ObjectMeta, controller_reference
from gpu_runtime.api.v1alpha1.annotations import STORAGE_RECOVERY_NONCE
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, Prepare
from gpu_runtime.api.v1alpha1.labels import GPU_STORAGE_APP, STORAGE_PREPARE
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.child_kinds import pod_template as pod
from gpu_runtime.controllers.child_kinds.jobs import Job, JobSpec
from gpu_runtime.controllers.child_kinds.network import NetworkPolicy, NetworkPolicySpec
from gpu_runtime.controllers.child_kinds.workloads import LabelSelector
from gpu_runtime.controllers.gpuunit.resources.network_policy import outward
from gpu_runtime.controllers.labels import CONTROLLED_BY, child_labels
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.controllers.runtime_pod import all_tolerations

CONTAINER = "prepare"
CLEAR_CONTAINER = "clear"
WORKSPACE, SOURCE, TARGET = "/workspace", "/source", "/target"
GRACE_SECONDS = 5
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"]
"""Needed to read every file, and to keep its owner, permissions and capabilities."""
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


def prepare_policy(storage: GPUStorage, prepare: Prepare, settings: ControllerManagerSettings) -> NetworkPolicy:
    """Nobody can connect to the pod. An image of the user can reach what a unit can reach; a copy can reach nobody."""
    return NetworkPolicy(
        metadata=_meta(storage, derived("prepare", storage.metadata.uid)),
        spec=NetworkPolicySpec(
            podSelector=LabelSelector(
                matchLabels={STORAGE_PREPARE: storage.metadata.name, CONTROLLED_BY: storage.metadata.uid}
            ),
            policyTypes=["Ingress", "Egress"],
            egress=outward(settings) if prepare.fromImage is not None else [],
        ),
    )


def prepare_job(storage: GPUStorage, prepare: Prepare, name: str, settings: ControllerManagerSettings) -> Job:
    """The Job as it is created: suspended.

    A late create request starts nothing that way, even if the source has another holder or the storage is filled by
    then. The controller resumes the Job on the version that it saw.
    """
    return Job(
        metadata=_meta(storage, name),
        spec=JobSpec(
            suspend=True,
            backoffLimit=0,  # a second run would find the files of the first
            podReplacementPolicy="Failed",  # never two pods that write to the volume at once
            activeDeadlineSeconds=settings.storage.prepareDeadlineSeconds,
            template=pod.PodTemplate(
                metadata=pod.TemplateMeta(labels=prepare_labels(storage)),
                spec=_copying_pod(storage, prepare.fromStorageName, settings)
                if prepare.fromStorageName is not None
                else _image_pod(storage, prepare, settings),
            ),
        ),
    )


def _meta(storage: GPUStorage, name: str) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=storage.metadata.namespace,
        labels=prepare_labels(storage),
        ownerReferences=[controller_reference(GPU_STORAGES.api_version, GPU_STORAGES.kind, storage.metadata)],
    )


def _image_pod(storage: GPUStorage, prepare: Prepare, settings: ControllerManagerSettings) -> pod.PodSpec:
    """The user's image. A recovery empties the volume first, with an image of ours."""
    mounts = [pod.VolumeMount(name="target", mountPath=WORKSPACE)]
    clear = _files_container(CLEAR_CONTAINER, ["clear", WORKSPACE], mounts, settings)
    fill = pod.Container(
        name=CONTAINER,
        image=prepare.fromImage or "",
        imagePullPolicy="IfNotPresent",
        command=prepare.command,
        args=prepare.args,
        resources=SIZE,
        securityContext=pod.ContainerSecurity(
            allowPrivilegeEscalation=False, seccompProfile=pod.SeccompProfile(type="RuntimeDefault")
        ),
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
    arguments = ["copy", SOURCE, TARGET, *(["--clear"] if is_recovery(storage) else [])]
    volumes = [_volume("source", source, read_only=True), _volume("target", storage.metadata.name)]
    return _pod([_files_container(CONTAINER, arguments, mounts, settings)], volumes, settings)


def _files_container(
    name: str, arguments: list[str], mounts: list[pod.VolumeMount], settings: ControllerManagerSettings
) -> pod.Container:
    """A container that runs `gpu-runtime files` as root: it reads files of all users and keeps their owners."""
    return pod.Container(
        name=name,
        image=settings.storage.image,
        imagePullPolicy="IfNotPresent",
        command=["gpu-runtime", "files", *arguments],
        resources=SIZE,
        securityContext=pod.ContainerSecurity(
            allowPrivilegeEscalation=False,
            seccompProfile=pod.SeccompProfile(type="RuntimeDefault"),
            runAsUser=0,
            capabilities=pod.Capabilities(add=CAPABILITIES, drop=["ALL"]),
            readOnlyRootFilesystem=True,
        ),
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
        tolerations=all_tolerations(settings.specs.values()),
        volumes=volumes,
    )


def _volume(name: str, claim: str, *, read_only: bool = False) -> pod.Volume:
    return pod.Volume(name=name, persistentVolumeClaim=pod.ClaimVolume(claimName=claim, readOnly=read_only))
