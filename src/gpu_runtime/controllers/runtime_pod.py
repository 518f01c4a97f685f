"""The pod that every workload of ours runs in: one hardened container that reserves its PodSize."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1 import template as api
from gpu_runtime.api.v1alpha1.gpuunit import StorageMount
from gpu_runtime.config import SpecSettings
from gpu_runtime.controllers.child_kinds import pod_template as pod
from gpu_runtime.controllers.pod_size import PodSize

CONTAINER = "runtime-worker"
SHARED_MEMORY = "runtime-shm"
PREFERRED_NODE_WEIGHT = 100
# A shell as PID 1 ignores SIGTERM unless it traps it, and waits for `sleep` unless that is in the background: without
# both, an ending pod holds its GPU until it is killed.
PLACEHOLDER = ["sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"]


@dataclass(frozen=True)
class Companion:
    """A container of ours beside the user's, with what it adds to the pod and to the user's container."""

    container: pod.Container
    volumes: Sequence[pod.Volume] = ()
    mounts: Sequence[pod.VolumeMount] = ()
    """Mounts of the user's container."""
    lifecycle: pod.Lifecycle | None = None
    """Hooks of the user's container."""


@dataclass(frozen=True)
class RuntimePod:
    """All inputs of a pod. `template` is what the user wants to run.

    If it is empty, a placeholder runs; beside a companion, what the image itself runs.
    """

    labels: dict[str, str]
    image: str
    size: PodSize
    environment: dict[str, str]
    grace_seconds: int
    priority_class: str
    settings: SpecSettings
    template: api.RuntimeTemplate = api.EMPTY_TEMPLATE
    readiness: pod.Probe | None = None
    shared_memory: bool = True
    mounts: Sequence[StorageMount] = ()
    preferred_node: str = ""
    companion: Companion | None = None
    security: pod.ContainerSecurity = field(
        default=pod.ContainerSecurity(
            allowPrivilegeEscalation=False, seccompProfile=pod.SeccompProfile(type="RuntimeDefault")
        )
    )

    def build(self) -> pod.PodTemplate:
        """The pod template. Pure: same input, same bytes."""
        volumes, mounts = self._volumes()
        settings = self.settings
        return pod.PodTemplate(
            metadata=pod.TemplateMeta(labels=self.labels),
            spec=pod.PodSpec(
                containers=[self._container(mounts), *([self.companion.container] if self.companion else [])],
                automountServiceAccountToken=False,
                enableServiceLinks=False,
                terminationGracePeriodSeconds=self.grace_seconds,
                priorityClassName=self.priority_class,
                runtimeClassName=settings.runtimeClassName,
                nodeSelector=settings.nodeSelector,
                affinity=prefer_node(self.preferred_node),
                tolerations=tolerations(settings),
                imagePullSecrets=[pod.LocalReference(name=name) for name in settings.imagePullSecrets],
                volumes=volumes,
            ),
        )

    def _container(self, mounts: list[pod.VolumeMount]) -> pod.Container:
        template = self.template
        idle = not template.command and not template.args and self.companion is None
        own = {each.name for each in template.envs}
        return pod.Container(
            name=CONTAINER,
            image=self.image,
            imagePullPolicy="IfNotPresent",
            command=PLACEHOLDER if idle else template.command,
            args=template.args,
            env=[
                *(pod.Env(name=name, value=value) for name, value in self.environment.items() if name not in own),
                *(_env(each) for each in template.envs),
            ],
            ports=[
                pod.ContainerPort(name=each.name, containerPort=each.port, protocol=each.protocol)
                for each in template.ports
            ],
            resources=self.size.resources,
            readinessProbe=probe(template.readinessProbe) if template.readinessProbe else self.readiness,
            lifecycle=self.companion.lifecycle if self.companion else None,
            securityContext=self.security,
            volumeMounts=mounts,
            # Without a message of the program itself, the pod's status then shows the end of its log.
            terminationMessagePolicy="FallbackToLogsOnError",
        )

    def _volumes(self) -> tuple[list[pod.Volume], list[pod.VolumeMount]]:
        volumes, mounts = [], []
        if self.shared_memory:
            volumes.append(pod.Volume(name=SHARED_MEMORY, emptyDir=_in_memory(self.size.memory)))
            mounts.append(pod.VolumeMount(name=SHARED_MEMORY, mountPath="/dev/shm"))  # noqa: S108  inside the pod
        for number, mount in enumerate(self.mounts):
            claim = pod.ClaimVolume(claimName=mount.name, readOnly=mount.readOnly)
            volumes.append(pod.Volume(name=f"storage-{number}", persistentVolumeClaim=claim))
            mounts.append(pod.VolumeMount(name=f"storage-{number}", mountPath=mount.mountPath, readOnly=mount.readOnly))
        if self.companion is not None:
            volumes.extend(self.companion.volumes)
            mounts.extend(self.companion.mounts)
        return volumes, mounts


def all_tolerations(specs: Iterable[SpecSettings]) -> list[pod.Toleration]:
    """The tolerations of all flavours, each once: a volume may be bound to a node that only units tolerate."""
    every = [each for settings in specs for each in tolerations(settings)]
    return [each for index, each in enumerate(every) if each not in every[:index]]


def tolerations(settings: SpecSettings) -> list[pod.Toleration]:
    return [
        pod.Toleration(
            key=each.key,
            operator=each.operator,
            value=each.value,
            effect=each.effect,
            tolerationSeconds=each.tolerationSeconds,
        )
        for each in settings.tolerations
    ]


def prefer_node(name: str) -> pod.Affinity | None:
    """Prefers one node, by metadata.name: the hostname label of a node may differ."""
    if not name:
        return None
    itself = pod.NodeRequirement(key="metadata.name", operator="In", values=[name])
    preferred = pod.PreferredNode(weight=PREFERRED_NODE_WEIGHT, preference=pod.NodeTerm(matchFields=[itself]))
    return pod.Affinity(nodeAffinity=pod.NodeAffinity(preferredDuringSchedulingIgnoredDuringExecution=[preferred]))


def probe(wanted: api.Probe) -> pod.Probe:
    """The probe that the template asks for."""
    http, tcp, run = wanted.httpGet, wanted.tcpSocket, wanted.exec
    return pod.Probe(
        httpGet=pod.HttpGet(path=http.path, port=http.port, scheme=http.scheme) if http else None,
        tcpSocket=pod.TcpSocket(port=tcp.port) if tcp else None,
        exec=pod.Exec(command=run.command) if run else None,
        initialDelaySeconds=wanted.initialDelaySeconds,
        periodSeconds=wanted.periodSeconds,
        timeoutSeconds=wanted.timeoutSeconds,
        successThreshold=wanted.successThreshold,
        failureThreshold=wanted.failureThreshold,
    )


def accepts_connections(port: api.Port) -> pod.Probe:
    """Ready when the port accepts a TCP connection; asked every 2 s, because users wait for it."""
    return pod.Probe(tcpSocket=pod.TcpSocket(port=port.port), periodSeconds=2)


def _env(wanted: api.EnvVar) -> pod.Env:
    if wanted.valueFrom is None:
        return pod.Env(name=wanted.name, value=wanted.value)
    secret = wanted.valueFrom.secretKeyRef
    reference = pod.SecretKeyRef(name=secret.name, key=secret.key, optional=secret.optional)
    return pod.Env(name=wanted.name, valueFrom=pod.EnvSource(secretKeyRef=reference))


def _in_memory(memory: Quantity | None) -> pod.EmptyDir:
    """Frameworks exchange tensors through /dev/shm, and 64Mi is too little. Its content counts as memory of the pod."""
    half = Quantity.parse(str(memory.value // 2 // 1024) + "Ki") if memory else None
    return pod.EmptyDir(medium="Memory", sizeLimit=str(half) if half else None)
