"""A pod as a Deployment describes it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class SecretKeyRef(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    key: str
    optional: bool = False


class EnvSource(Struct, frozen=True, omit_defaults=True, kw_only=True):
    secretKeyRef: SecretKeyRef | None = None


class Env(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    value: str = ""
    valueFrom: EnvSource | None = None


class ContainerPort(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str = ""
    containerPort: int
    protocol: str = "TCP"


class HttpGet(Struct, frozen=True, omit_defaults=True, kw_only=True):
    path: str = "/"
    port: int | str
    scheme: str = "HTTP"


class TcpSocket(Struct, frozen=True, omit_defaults=True, kw_only=True):
    port: int | str


class Exec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    command: list[str] = []


class Probe(Struct, frozen=True, omit_defaults=True, kw_only=True):
    httpGet: HttpGet | None = None
    tcpSocket: TcpSocket | None = None
    exec: Exec | None = None
    initialDelaySeconds: int = 0
    periodSeconds: int = 10
    timeoutSeconds: int = 1
    successThreshold: int = 1
    failureThreshold: int = 3


class Resources(Struct, frozen=True, omit_defaults=True, kw_only=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class SeccompProfile(Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str = ""


class Capabilities(Struct, frozen=True, omit_defaults=True, kw_only=True):
    add: list[str] = []
    drop: list[str] = []


class ContainerSecurity(Struct, frozen=True, omit_defaults=True, kw_only=True):
    allowPrivilegeEscalation: bool | None = None
    privileged: bool | None = None
    runAsUser: int | None = None
    seccompProfile: SeccompProfile | None = None
    capabilities: Capabilities | None = None
    readOnlyRootFilesystem: bool | None = None


class Hook(Struct, frozen=True, omit_defaults=True, kw_only=True):
    httpGet: HttpGet | None = None


class Lifecycle(Struct, frozen=True, omit_defaults=True, kw_only=True):
    preStop: Hook | None = None


class VolumeMount(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    mountPath: str
    readOnly: bool = False


class Container(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    image: str = ""
    imagePullPolicy: str = ""  # always set: the server's default depends on the image's tag
    command: list[str] = []
    args: list[str] = []
    env: list[Env] = []
    ports: list[ContainerPort] = []
    resources: Resources = Resources()
    readinessProbe: Probe | None = None
    lifecycle: Lifecycle | None = None
    securityContext: ContainerSecurity | None = None
    volumeMounts: list[VolumeMount] = []
    terminationMessagePolicy: str = "File"


class EmptyDir(Struct, frozen=True, omit_defaults=True, kw_only=True):
    medium: str = ""
    sizeLimit: str | None = None


class ClaimVolume(Struct, frozen=True, omit_defaults=True, kw_only=True):
    claimName: str
    readOnly: bool = False


class SecretVolume(Struct, frozen=True, omit_defaults=True, kw_only=True):
    secretName: str
    defaultMode: int = 0o644


class ConfigMapVolume(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    defaultMode: int = 0o644


class Volume(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    emptyDir: EmptyDir | None = None
    persistentVolumeClaim: ClaimVolume | None = None
    secret: SecretVolume | None = None
    configMap: ConfigMapVolume | None = None


class NodeRequirement(Struct, frozen=True, omit_defaults=True, kw_only=True):
    key: str
    operator: str
    values: list[str] = []


class NodeTerm(Struct, frozen=True, omit_defaults=True, kw_only=True):
    matchExpressions: list[NodeRequirement] = []
    matchFields: list[NodeRequirement] = []


class PreferredNode(Struct, frozen=True, omit_defaults=True, kw_only=True):
    weight: int
    preference: NodeTerm


class NodeAffinity(Struct, frozen=True, omit_defaults=True, kw_only=True):
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredNode] = []


class Affinity(Struct, frozen=True, omit_defaults=True, kw_only=True):
    nodeAffinity: NodeAffinity | None = None


class Toleration(Struct, frozen=True, omit_defaults=True, kw_only=True):
    key: str = ""
    operator: Literal["Equal", "Exists", ""] = ""
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""
    tolerationSeconds: int | None = None


class LocalReference(Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str = ""


class PodSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """First the fields that we set, then fields that nobody may add to a tenant's pod."""

    containers: list[Container] = []
    restartPolicy: str = "Always"
    automountServiceAccountToken: bool | None = None
    enableServiceLinks: bool | None = None
    terminationGracePeriodSeconds: int = 30
    priorityClassName: str = ""
    runtimeClassName: str | None = None
    nodeSelector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    imagePullSecrets: list[LocalReference] = []
    volumes: list[Volume] = []

    initContainers: list[Container] = []
    hostNetwork: bool = False
    hostPID: bool = False
    hostIPC: bool = False
    serviceAccountName: str = ""
    nodeName: str = ""


class TemplateMeta(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Without annotations, because others set them: `kubectl rollout restart` does."""

    labels: dict[str, str] = {}


class PodTemplate(Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()
