"""Translates Pods and their containers into the specs of the pod runtime. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.local.kinds.container import CapabilityChange, Container, SeccompProfile, SecurityContext
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.node.agent import probes
from gpu_runtime.local.node.agent.environment import ConfigError, command
from gpu_runtime.local.node.agent.volumes import Place, memory_volumes
from gpu_runtime.local.node.expansion import expand
from gpu_runtime.local.node.shim.syscalls import KEPT_CAPABILITIES
from gpu_runtime.local.node.specs import ContainerSpec, Mount, PodSpec

T = TypeVar("T")
GPU = "nvidia.com/gpu"
# Capabilities that a container may add. None of them reaches outside the pod's namespaces.
_GRANTABLE = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
    "NET_BIND_SERVICE": 10, "NET_ADMIN": 12, "NET_RAW": 13, "IPC_LOCK": 14, "SYS_CHROOT": 18, "SYS_PTRACE": 19,
    "SYS_NICE": 23, "SETFCAP": 31,
}  # fmt: skip


def gpu_counts(pod: Pod) -> dict[str, int]:
    """GPUs by container, in the order of starting."""
    counts = {}
    for container in (*pod.spec.initContainers, *pod.spec.containers):
        amount = container.resources.limits.get(GPU) or container.resources.requests.get(GPU)
        if amount:
            counts[container.name] = Quantity.parse(amount).value
    return counts


def gpus_given_back(pod: Pod) -> list[str]:
    """Containers that end before the next one starts, so that their GPUs are free again: init containers that are no
    sidecars."""
    return [container.name for container in pod.spec.initContainers if not container.sidecar]


def sandbox_spec(pod: Pod) -> PodSpec:
    """What the containers of the pod share."""
    everyone = [*pod.spec.initContainers, *pod.spec.containers]
    declared = {port.containerPort for each in everyone for port in each.ports if port.protocol == "TCP"}
    asked = {port for each in everyone for port in probes.probed_ports(each)}
    return PodSpec(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        hostname=pod.spec.hostname,
        hostNetwork=pod.spec.hostNetwork,
        gpus=gpu_counts(pod),
        gpusGivenBack=gpus_given_back(pod),
        memoryVolumes=memory_volumes(pod),
        ports=sorted(declared | asked),
    )


def container_spec(
    pod: Pod, container: Container, attempt: int, environment: Mapping[str, str], places: Mapping[str, Place]
) -> ContainerSpec:
    """One run of one container; ConfigError says what is wrong with its configuration."""
    security = container.securityContext or SecurityContext()
    shared = pod.spec.securityContext
    user = _first(security.runAsUser, shared.runAsUser, 0)
    if _first(security.runAsNonRoot, shared.runAsNonRoot, False) and user == 0:
        raise ConfigError(
            f'container has runAsNonRoot and image will run as root (pod: "{pod}", container: {container.name})'
        )
    groups = [*shared.supplementalGroups, *([shared.fsGroup] if shared.fsGroup is not None else [])]
    memory = container.resources.limits.get("memory", "")
    return ContainerSpec(
        name=container.name,
        attempt=attempt,
        command=command(container, environment),
        env=dict(environment),
        workingDir=container.workingDir or "/",
        stdin=container.stdin,
        stdinOnce=container.stdinOnce,
        tty=container.tty,
        mounts=_mounts(container, environment, places),
        readOnlyRoot=security.readOnlyRootFilesystem,
        user=user,
        group=_first(security.runAsGroup, shared.runAsGroup, 0),
        groups=groups,
        capabilities=_capabilities(security.capabilities or CapabilityChange()),
        seccomp=_first(security.seccompProfile, shared.seccompProfile, SeccompProfile()).type != "Unconfined",
        memoryBytes=Quantity.parse(memory).value if memory else 0,
        terminationPath=container.terminationMessagePath,
    )


def _first(*values: T | None) -> T:
    return next(value for value in values if value is not None)


def _mounts(container: Container, environment: Mapping[str, str], places: Mapping[str, Place]) -> list[Mount]:
    mounts = []
    for mount in container.volumeMounts:
        if mount.name not in places:
            raise ConfigError(f'volume "{mount.name}" is not defined')
        place = places[mount.name]
        mounts.append(
            Mount(
                source=str(place.path),
                target=mount.mountPath,
                readOnly=mount.readOnly or place.readOnly,
                ofMachine=place.of_machine,
                subPath=expand(mount.subPathExpr, environment) if mount.subPathExpr else mount.subPath,
            )
        )
    return mounts


def _capabilities(change: CapabilityChange) -> tuple[int, ...]:
    def numbers(names: list[str]) -> set[int]:
        plain = {name.upper().removeprefix("CAP_") for name in names}
        return (
            set(_GRANTABLE.values()) if "ALL" in plain else {_GRANTABLE[name] for name in plain if name in _GRANTABLE}
        )

    return tuple(sorted((KEPT_CAPABILITIES - numbers(change.drop)) | numbers(change.add)))
