"""Settings of each process: one strict YAML file, every key also as an environment variable.

The variable of a key is `GPU_RUNTIME_`, the process, then the path of the key, in upper case with `_` between words:
`leaderElection.enabled` of the controller-manager is `GPU_RUNTIME_CONTROLLER_MANAGER_LEADER_ELECTION_ENABLED`. It wins
over the file. Values that are no text are written as YAML (`8`, `true`, `[a, b]`, `{a: 1}`). A key or variable that is
not known is an error that names it. Secrets never stand here: a setting names the file that holds one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import yaml
from msgspec import Meta, Struct

from gpu_runtime.api.schema import Node, describe
from gpu_runtime.api.v1alpha1.fields import ImageReference
from gpu_runtime.api.v1alpha1.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpu_runtime.api.v1alpha1.priorities import ACTIVE_PRIORITY_CLASS, STOCK_PRIORITY_CLASS
from gpu_runtime.api.validation import FieldError, validate

S = TypeVar("S", bound=Struct)
PREFIX = "GPU_RUNTIME"
Port = Annotated[int, Meta(ge=0, le=65535)]


def _cidr(text: str) -> object:
    return ipaddress.ip_network(text)


Cidr = Annotated[str, Meta(extra={"check": _cidr})]


class ConfigError(Exception):
    """One line for each thing that is wrong with the settings."""


class Log(Struct, frozen=True, kw_only=True):
    """How much is said. Lines are JSON unless somebody watches on a terminal."""

    level: Literal["debug", "info", "warning", "error"] = "info"


class Health(Struct, frozen=True, kw_only=True):
    """Where /healthz, /readyz and /metrics are served."""

    host: str = "127.0.0.1"
    port: Annotated[Port, Meta(description="0 takes any free port.")] = 8081


class LeaderElection(Struct, frozen=True, kw_only=True):
    """Whether replicas elect one that works; a Lease in the install namespace decides."""

    enabled: bool = True


class TolerationSettings(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """As in a pod."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""
    tolerationSeconds: int | None = None


class SpecSettings(Struct, frozen=True, kw_only=True):
    """What pods of one flavour get beyond what their objects say."""

    nodeSelector: dict[str, str] = {}
    tolerations: list[TolerationSettings] = []
    runtimeClassName: str | None = None
    imagePullSecrets: Annotated[list[str], Meta(description="Names of Secrets in the pod's own namespace.")] = []
    priorityClassName: Annotated[str | None, Meta(description="In place of the class of active units.")] = None
    stockPriorityClassName: Annotated[str | None, Meta(description="In place of the class of stock.")] = None


class UnitSettings(Struct, frozen=True, kw_only=True):
    """Active units."""

    terminationGracePeriodSeconds: Annotated[int, Meta(ge=1, le=3600)] = 10
    priorityClassName: str = ACTIVE_PRIORITY_CLASS
    accessURL: Annotated[
        str, Meta(description="status.accessURL; {scheme}, {name}, {namespace} and {port} are filled in.")
    ] = "{scheme}://{name}.{namespace}.svc.cluster.local:{port}"


class StockSettings(Struct, frozen=True, kw_only=True):
    """Stock units and pools: what holds resources until somebody wants them."""

    namespaces: Annotated[
        tuple[str, ...], Meta(min_length=1, description="A GPUUnit in one of these is a reservation.")
    ] = (STOCK_NAMESPACE,)
    image: ImageReference = "busybox:1.36"
    terminationGracePeriodSeconds: Annotated[int, Meta(ge=1, le=3600)] = 1
    priorityClassName: str = STOCK_PRIORITY_CLASS


class NetworkSettings(Struct, frozen=True, kw_only=True):
    """What active units may reach: DNS, and everything outside of the blocked ranges."""

    blockedEgressCIDRs: tuple[Cidr, ...] = (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
    )
    dnsNamespace: str = "kube-system"
    dnsCIDRs: Annotated[tuple[Cidr, ...], Meta(description="Further DNS servers, such as a node-local cache.")] = (
        "169.254.20.10/32",
    )


class ControllerManagerSettings(Struct, frozen=True, kw_only=True):
    """The controller-manager: reconciles StockPools and GPUUnits."""

    installNamespace: str = SYSTEM_NAMESPACE
    log: Log = Log()
    health: Health = Health()
    leaderElection: LeaderElection = LeaderElection()
    workers: Annotated[int, Meta(ge=1, le=256, description="Objects of one kind that are reconciled at a time.")] = 8
    units: UnitSettings = UnitSettings()
    stock: StockSettings = StockSettings()
    network: NetworkSettings = NetworkSettings()
    specs: Annotated[dict[str, SpecSettings], Meta(description="By spec name, such as g1.1.")] = {}


class ApiLimits(Struct, frozen=True, kw_only=True):
    """How much one request, and all requests together, may ask of the API."""

    bodyBytes: Annotated[int, Meta(ge=1024, le=1024**3)] = 1024 * 1024
    requestsInFlight: Annotated[int, Meta(ge=1, le=100_000)] = 256
    streams: Annotated[int, Meta(ge=1, le=100_000, description="Watches and followed logs at a time.")] = 500
    stockUnits: Annotated[int, Meta(ge=1, le=10_000, description="Stock units that one request may seed.")] = 1000


class OperationSettings(Struct, frozen=True, kw_only=True):
    """The records of client operations."""

    retentionSeconds: Annotated[int, Meta(ge=60, description="Kept so long after what they made is gone.")] = 24 * 3600
    abandonedAfterSeconds: Annotated[int, Meta(ge=1, description="Unchanged so long, they are taken up or undone.")] = (
        30
    )
    replayWaitSeconds: Annotated[int, Meta(ge=0, le=60, description="A replay waits so long for the first.")] = 2


class RuntimeApiSettings(Struct, frozen=True, kw_only=True):
    """The runtime-api: the REST API and the work that belongs to it."""

    installNamespace: str = SYSTEM_NAMESPACE
    log: Log = Log()
    health: Health = Health(port=8082)
    httpAddr: Annotated[str, Meta(pattern=r":[0-9]+$", description="HOST:PORT; an empty host is every address.")] = (
        "127.0.0.1:8080"
    )
    auth: Annotated[
        Literal["token", "none"],
        Meta(description="Bound elsewhere than to loopback, the API needs tokenFile, or `none` in so many words."),
    ] = "token"
    tokenFile: Annotated[str | None, Meta(description="File of bearer tokens, one line each: NAME TOKEN.")] = None
    allowedHosts: Annotated[list[str], Meta(description="Further names that clients may call the API by.")] = []
    allowedNamespaces: Annotated[
        list[str], Meta(description="Where users may have pools and units; patterns such as team-* are understood.")
    ] = msgspec.field(default_factory=lambda: ["default", INSTANCE_NAMESPACE])
    stockNamespace: str = STOCK_NAMESPACE
    instanceNamespace: Annotated[str, Meta(description="Where units are made when the request names no namespace.")] = (
        INSTANCE_NAMESPACE
    )
    limits: ApiLimits = ApiLimits()
    operations: OperationSettings = OperationSettings()
    drainSeconds: Annotated[int, Meta(ge=0, le=600, description="Requests get so long to end after SIGTERM.")] = 20


PROCESSES: dict[str, type[Struct]] = {
    "controller-manager": ControllerManagerSettings,
    "runtime-api": RuntimeApiSettings,
}


def load(settings: type[S], path: Path | None, env: Mapping[str, str], *, process: str | None = None) -> S:
    """The settings in force: defaults, then the file, then the environment. Every error at once, each with its key."""
    document = _read(path) if path is not None else {}
    sources = {"": str(path)}
    prefix = f"{PREFIX}_{_words(process or _process_of(settings))}_"
    known = dict(_variables(describe(settings), prefix, ()))
    errors = []
    for variable, text in env.items():
        if not variable.startswith(prefix):
            continue
        if variable not in known:
            errors.append(f"{variable}: no setting has this variable")
            continue
        keys, node = known[variable]
        sources[".".join(keys)] = variable
        _put(document, keys, text if node.type == "string" else _parse(variable, text))
    errors += [f"{_source(sources, error)}: {error.field}: {error.message}" for error in validate(settings, document)]
    if errors:
        raise ConfigError("\n".join(errors))
    return msgspec.convert(document, settings)


def show(settings: Struct) -> str:
    """The settings as the YAML file that would give them."""
    text: str = yaml.safe_dump(msgspec.to_builtins(_explicit(settings)), sort_keys=False)
    return text


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is written twice: one of the two would be lost without a word."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key} is written twice", problem_mark=key_node.start_mark)
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(path.read_text(), Loader=_StrictLoader)  # noqa: S506  it is a safe loader
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is no YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: must hold keys and values, such as `workers: 4`")
    return document


def _variables(node: Node, prefix: str, keys: tuple[str, ...]) -> Iterator[tuple[str, tuple[tuple[str, ...], Node]]]:
    for name, field in node.fields.items():
        path = (*keys, name)
        if field.node.type == "object":
            yield from _variables(field.node, prefix, path)
        else:
            yield prefix + "_".join(_words(key) for key in path), (path, field.node)


def _words(name: str) -> str:
    """`leaderElection` and `leader-election` as LEADER_ELECTION."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name).upper()


def _process_of(settings: type[Struct]) -> str:
    return next(name for name, each in PROCESSES.items() if each is settings)


def _parse(variable: str, text: str) -> object:
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506  it is a safe loader
    except yaml.YAMLError as error:
        raise ConfigError(f"{variable}: is no YAML value: {text!r}") from error


def _put(document: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    for key in keys[:-1]:
        inner = document.get(key)
        document[key] = document = inner if isinstance(inner, dict) else {}
    document[keys[-1]] = value


def _source(sources: Mapping[str, str], error: FieldError) -> str:
    """The variable or file that the value at fault came from."""
    found = [key for key in sources if key and (error.field == key or error.field.startswith((f"{key}.", f"{key}[")))]
    return sources[max(found, key=len, default="")]


def _explicit(value: object) -> object:
    """Structs with the defaults in them."""
    if isinstance(value, Struct):
        return {name: _explicit(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: _explicit(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_explicit(each) for each in value]
    return value
