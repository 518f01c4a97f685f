"""The parts of Kubernetes objects that the node reads, named as on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.kube.resource import Resource


class _Wire(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Read from the API server or written to it: absent fields have their defaults, unknown ones are ignored."""


class KeyRef(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    """One key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldRef(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    fieldPath: str


class ResourceFieldRef(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    resource: str
    containerName: str = ""
    divisor: str = "0"


class EnvSource(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    fieldRef: FieldRef | None = None
    resourceFieldRef: ResourceFieldRef | None = None
    configMapKeyRef: KeyRef | None = None
    secretKeyRef: KeyRef | None = None


class EnvVar(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    value: str = ""
    valueFrom: EnvSource | None = None


class EnvFrom(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    prefix: str = ""
    configMapRef: KeyRef | None = None
    secretRef: KeyRef | None = None


class ContainerPort(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    containerPort: int
    name: str = ""
    protocol: str = "TCP"


class Resources(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}


class VolumeMount(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    mountPath: str
    subPath: str = ""
    subPathExpr: str = ""
    readOnly: bool = False


class ExecAction(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    command: list[str] = []


class HttpHeader(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    value: str = ""


class HttpGet(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    httpHeaders: list[HttpHeader] = []


class TcpSocket(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    port: int | str
    host: str = ""


class Sleep(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    seconds: int = 0


class Handler(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    exec: ExecAction | None = None
    httpGet: HttpGet | None = None
    sleep: Sleep | None = None


class Lifecycle(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    postStart: Handler | None = None
    preStop: Handler | None = None


class Probe(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    exec: ExecAction | None = None
    httpGet: HttpGet | None = None
    tcpSocket: TcpSocket | None = None
    initialDelaySeconds: int = 0
    timeoutSeconds: int = 1
    periodSeconds: int = 10
    successThreshold: int = 1
    failureThreshold: int = 3
    terminationGracePeriodSeconds: int | None = None


class CapabilityChange(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    add: list[str] = []
    drop: list[str] = []


class SecurityContext(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    runAsUser: int | None = None
    runAsGroup: int | None = None
    runAsNonRoot: bool | None = None
    readOnlyRootFilesystem: bool = False
    capabilities: CapabilityChange | None = None


class PodSecurityContext(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    runAsUser: int | None = None
    runAsGroup: int | None = None
    runAsNonRoot: bool | None = None
    fsGroup: int | None = None
    supplementalGroups: list[int] = []


class Container(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    workingDir: str = ""
    env: list[EnvVar] = []
    envFrom: list[EnvFrom] = []
    ports: list[ContainerPort] = []
    resources: Resources = Resources()
    volumeMounts: list[VolumeMount] = []
    livenessProbe: Probe | None = None
    readinessProbe: Probe | None = None
    startupProbe: Probe | None = None
    lifecycle: Lifecycle | None = None
    restartPolicy: str = ""
    terminationMessagePath: str = "/dev/termination-log"
    terminationMessagePolicy: str = "File"
    securityContext: SecurityContext | None = None

    @property
    def sidecar(self) -> bool:
        """An init container that runs beside the others instead of before them."""
        return self.restartPolicy == "Always"


class KeyToPath(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    key: str
    path: str
    mode: int | None = None


class EmptyDir(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    medium: str = ""
    sizeLimit: str = ""


class ConfigMapSource(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    name: str = ""
    items: list[KeyToPath] = []
    defaultMode: int = 0o644
    optional: bool = False


class SecretSource(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    secretName: str = ""
    name: str = ""  # in a projected volume
    items: list[KeyToPath] = []
    defaultMode: int = 0o644
    optional: bool = False


class DownwardFile(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    path: str
    fieldRef: FieldRef | None = None
    resourceFieldRef: ResourceFieldRef | None = None
    mode: int | None = None


class DownwardSource(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    items: list[DownwardFile] = []
    defaultMode: int = 0o644


class TokenSource(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    path: str
    audience: str = ""
    expirationSeconds: int = 3600


class ProjectedPart(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    configMap: ConfigMapSource | None = None
    secret: SecretSource | None = None
    downwardAPI: DownwardSource | None = None
    serviceAccountToken: TokenSource | None = None


class ProjectedSource(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    sources: list[ProjectedPart] = []
    defaultMode: int = 0o644


class ClaimSource(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    claimName: str
    readOnly: bool = False


class HostPath(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    path: str
    type: str = ""


class Volume(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    emptyDir: EmptyDir | None = None
    configMap: ConfigMapSource | None = None
    secret: SecretSource | None = None
    downwardAPI: DownwardSource | None = None
    projected: ProjectedSource | None = None
    persistentVolumeClaim: ClaimSource | None = None
    hostPath: HostPath | None = None


class ReadinessGate(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    conditionType: str


class PodSpec(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    containers: list[Container]
    initContainers: list[Container] = []
    volumes: list[Volume] = []
    restartPolicy: Literal["Always", "OnFailure", "Never"] = "Always"
    terminationGracePeriodSeconds: int = 30
    activeDeadlineSeconds: int | None = None
    nodeName: str = ""
    hostname: str = ""
    hostNetwork: bool = False
    serviceAccountName: str = "default"
    enableServiceLinks: bool = True
    securityContext: PodSecurityContext = PodSecurityContext()
    readinessGates: list[ReadinessGate] = []

    @property
    def gates(self) -> list[str]:
        return [gate.conditionType for gate in self.readinessGates]


class PodMeta(ObjectMeta, frozen=True, omit_defaults=True, kw_only=True):
    deletionGracePeriodSeconds: int | None = None


class PodCondition(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: datetime | None = None
    observedGeneration: int = 0


class Waiting(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    reason: str = ""
    message: str = ""


class Running(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    startedAt: datetime | None = None


class Terminated(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    exitCode: int = msgspec.field(default=-1)
    signal: int = 0
    reason: str = ""
    message: str = ""
    startedAt: datetime | None = None
    finishedAt: datetime | None = None
    containerID: str = ""


class State(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    """Exactly one is set; none in a `lastState` of a first run."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Every field is written, as a kubelet does: readers tell `false` from absent."""

    name: str
    state: State = State()
    lastState: State = State()
    ready: bool = False
    restartCount: int = 0
    image: str = ""
    imageID: str = ""
    containerID: str | msgspec.UnsetType = msgspec.UNSET
    started: bool | msgspec.UnsetType = msgspec.UNSET


class Address(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    ip: str


class PodStatus(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    """The kubelet's part of a Pod's status."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    hostIP: str = ""
    hostIPs: list[Address] = []
    podIP: str = ""
    podIPs: list[Address] = []
    startTime: datetime | None = None
    conditions: list[PodCondition] = []
    initContainerStatuses: list[ContainerStatus] = []
    containerStatuses: list[ContainerStatus] = []
    observedGeneration: int = 0


class Pod(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    metadata: PodMeta
    spec: PodSpec
    status: PodStatus = PodStatus()

    def __str__(self) -> str:
        """As a kubelet names it in messages."""
        return f"{self.metadata.name}_{self.metadata.namespace}({self.metadata.uid})"


class ConfigMap(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}
    binaryData: dict[str, bytes] = {}


class Secret(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    data: dict[str, bytes] = {}


class ClaimSpec(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    volumeName: str = ""


class ClaimStatus(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""


class Claim(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class PersistentVolumeSpec(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    hostPath: HostPath | None = None
    local: HostPath | None = None


class PersistentVolume(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class ServicePort(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    port: int
    name: str = ""
    protocol: str = "TCP"


class ServiceSpec(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    clusterIP: str = ""
    ports: list[ServicePort] = []
    type: str = "ClusterIP"


class Service(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


class EndpointConditions(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    ready: bool = True


class Endpoint(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    addresses: list[str] = []
    conditions: EndpointConditions = EndpointConditions()
    hostname: str = ""


class EndpointPort(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"


class EndpointSlice(_Wire, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    addressType: str = "IPv4"
    endpoints: list[Endpoint] | None = None  # null while there are none
    ports: list[EndpointPort] | None = None


PODS = Resource("", "v1", "Pod", "pods", Pod)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)
SECRETS = Resource("", "v1", "Secret", "secrets", Secret)
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Claim)
PERSISTENT_VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", PersistentVolume, namespaced=False)
SERVICES = Resource("", "v1", "Service", "services", Service)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", EndpointSlice)
