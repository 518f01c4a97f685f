"""A container of a Pod, as far as the node reads it."""

from __future__ import annotations

import msgspec


class KeyRef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldRef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    fieldPath: str


class ResourceFieldRef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    resource: str
    containerName: str = ""
    divisor: str = "0"


class EnvSource(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    fieldRef: FieldRef | None = None
    resourceFieldRef: ResourceFieldRef | None = None
    configMapKeyRef: KeyRef | None = None
    secretKeyRef: KeyRef | None = None


class EnvVar(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    value: str = ""
    valueFrom: EnvSource | None = None


class EnvFrom(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    prefix: str = ""
    configMapRef: KeyRef | None = None
    secretRef: KeyRef | None = None


class ContainerPort(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    containerPort: int
    name: str = ""
    protocol: str = "TCP"


class Resources(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}


class VolumeMount(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    mountPath: str
    subPath: str = ""
    subPathExpr: str = ""
    readOnly: bool = False


class ExecAction(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    command: list[str] = []


class HttpHeader(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    value: str = ""


class HttpGet(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    httpHeaders: list[HttpHeader] = []


class TcpSocket(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    port: int | str
    host: str = ""


class Sleep(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    seconds: int = 0


class Handler(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    exec: ExecAction | None = None
    httpGet: HttpGet | None = None
    sleep: Sleep | None = None


class Lifecycle(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    postStart: Handler | None = None
    preStop: Handler | None = None


class Probe(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    exec: ExecAction | None = None
    httpGet: HttpGet | None = None
    tcpSocket: TcpSocket | None = None
    initialDelaySeconds: int = 0
    timeoutSeconds: int = 1
    periodSeconds: int = 10
    successThreshold: int = 1
    failureThreshold: int = 3
    terminationGracePeriodSeconds: int | None = None


class CapabilityChange(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    add: list[str] = []
    drop: list[str] = []


class SeccompProfile(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str = "RuntimeDefault"


class SecurityContext(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    runAsUser: int | None = None
    runAsGroup: int | None = None
    runAsNonRoot: bool | None = None
    readOnlyRootFilesystem: bool = False
    capabilities: CapabilityChange | None = None
    seccompProfile: SeccompProfile | None = None


class PodSecurityContext(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    seccompProfile: SeccompProfile | None = None
    runAsUser: int | None = None
    runAsGroup: int | None = None
    runAsNonRoot: bool | None = None
    fsGroup: int | None = None
    supplementalGroups: list[int] = []


class Container(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    workingDir: str = ""
    stdin: bool = False
    stdinOnce: bool = False
    tty: bool = False
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
