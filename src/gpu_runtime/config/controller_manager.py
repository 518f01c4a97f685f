"""Settings of the controller-manager."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.fields import ImageReference
from gpu_runtime.api.v1alpha1.namespaces import STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpu_runtime.api.v1alpha1.priorities import ACTIVE_PRIORITY_CLASS, STOCK_PRIORITY_CLASS
from gpu_runtime.config.shared import Health, Log

NATS_PORT = 4222


def _cidr(text: str) -> object:
    return ipaddress.ip_network(text)


def _address(text: str) -> str:
    try:
        return text.format(scheme="http", name="u", namespace="n", port=80)
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(
            f"may hold {{scheme}}, {{name}}, {{namespace}} and {{port}}, and no other {{...}}: {error}"
        ) from error


def _storage_address(text: str) -> str:
    try:
        return text.format(name="s", namespace="n")
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(f"may hold {{name}} and {{namespace}}, and no other {{...}}: {error}") from error


def _amount(text: str) -> object:
    return Quantity.parse(text, negative=False)


def _broker_url(text: str) -> object:
    for each in text.split(",") if text else ():
        parts = urlsplit(each.strip())
        if parts.scheme not in ("nats", "tls") or not parts.hostname:
            raise ValueError(f"{each.strip()!r} is not an address such as nats://nats.example.com:4222")
        if parts.username is not None:
            raise ValueError("holds a user: workers get their credentials from a Secret")
    return text


Cidr = Annotated[str, Meta(extra={"check": _cidr})]


class LeaderElection(Struct, frozen=True, kw_only=True):
    """Leader election among replicas, through a Lease in the install namespace."""

    enabled: bool = True


class TolerationSettings(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A toleration, with the fields that a Pod spec has."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""
    tolerationSeconds: int | None = None


class SpecSettings(Struct, frozen=True, kw_only=True):
    """Additions to the pods of one spec name (flavour) that their StockPool or GPUUnit does not set."""

    nodeSelector: dict[str, str] = {}
    tolerations: list[TolerationSettings] = []
    runtimeClassName: str | None = None
    imagePullSecrets: Annotated[list[str], Meta(description="Names of Secrets in the pod's own namespace.")] = []
    priorityClassName: Annotated[str | None, Meta(description="In place of the class of active units.")] = None
    stockPriorityClassName: Annotated[str | None, Meta(description="In place of the class of stock.")] = None


class UnitSettings(Struct, frozen=True, kw_only=True):
    """Settings of active units, which users run."""

    terminationGracePeriodSeconds: Annotated[int, Meta(ge=1, le=3600)] = 10
    priorityClassName: str = ACTIVE_PRIORITY_CLASS
    accessURL: Annotated[
        str,
        Meta(
            description="status.accessURL; {scheme}, {name}, {namespace} and {port} are filled in.",
            extra={"check": _address},
        ),
    ] = "{scheme}://{name}.{namespace}.svc.cluster.local:{port}"


class StockSettings(Struct, frozen=True, kw_only=True):
    """Settings of stock units and pools, which reserve resources until a user needs them."""

    namespaces: Annotated[
        tuple[str, ...], Meta(min_length=1, description="A GPUUnit in one of these is a reservation.")
    ] = (STOCK_NAMESPACE,)
    image: ImageReference = "busybox:1.36"
    terminationGracePeriodSeconds: Annotated[int, Meta(ge=1, le=3600)] = 1
    priorityClassName: str = STOCK_PRIORITY_CLASS


class StorageSettings(Struct, frozen=True, kw_only=True):
    """Settings of storages: their claims, and the pods that fill them and serve their files."""

    accessMode: Annotated[
        Literal["ReadWriteOnce", "ReadWriteOncePod"],
        Meta(description="Of new claims. ReadWriteOncePod needs a CSI driver and protects against a second pod."),
    ] = "ReadWriteOnce"
    image: Annotated[
        ImageReference, Meta(description="Image of this project, for the pods that copy data and serve files.")
    ] = "gpu-runtime:dev"
    accessURL: Annotated[
        str,
        Meta(
            description="status.accessor.accessURL; {name} and {namespace} are filled in. "
            "Default: the path on the proxy; put the proxy's address in front of it.",
            extra={"check": _storage_address},
        ),
    ] = "/storages/{namespace}/{name}/"
    prepareDeadlineSeconds: Annotated[
        int, Meta(ge=1, le=7 * 86400, description="After this time a prepare that still runs has failed.")
    ] = 6 * 3600


class ServerlessSettings(Struct, frozen=True, kw_only=True):
    """Settings of serverless workers: the container beside the user's, and the broker that it connects to."""

    brokerURL: Annotated[
        str,
        Meta(
            description="The broker's address inside pods, such as nats://nats.nats:4222; several, separated by "
            "commas. Without it no unit can be a worker.",
            extra={"check": _broker_url},
        ),
    ] = ""
    brokerCredentials: Annotated[
        bool,
        Meta(description="Whether workers get credentials: a Secret that the activator makes for each function."),
    ] = True
    brokerNamespace: Annotated[
        str, Meta(description="Namespace of the broker's pods: workers may connect to them.")
    ] = SYSTEM_NAMESPACE
    brokerCIDRs: Annotated[tuple[Cidr, ...], Meta(description="Where the broker is, if it is not in the cluster.")] = ()
    image: Annotated[
        ImageReference, Meta(description="Image of this project: for workers, and for functions given as source.")
    ] = "gpu-runtime:dev"
    workerMemory: Annotated[
        str,
        Meta(
            description="Memory that a worker may use beside the unit's own. It requests nothing of the node.",
            extra={"check": _amount},
        ),
    ] = "512Mi"
    terminationGracePeriodSeconds: Annotated[
        int,
        Meta(
            ge=5,
            le=3600,
            description="How long a worker that is told to end may finish its invocations. A template can set another.",
        ),
    ] = 60

    @property
    def broker_ports(self) -> list[int]:
        """The ports of the broker's addresses."""
        return sorted({urlsplit(each.strip()).port or NATS_PORT for each in self.brokerURL.split(",")})


class NetworkSettings(Struct, frozen=True, kw_only=True):
    """What active units may connect to: DNS, and every address outside the blocked ranges. And who may read files."""

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
    proxyCIDRs: Annotated[
        tuple[Cidr, ...],
        Meta(description="Where the proxy runs, if it is no pod of the install namespace: only it may read files."),
    ] = ()


class ControllerManagerSettings(Struct, frozen=True, kw_only=True):
    """The controller-manager: reconciles StockPools, GPUUnits and GPUStorages."""

    installNamespace: str = SYSTEM_NAMESPACE
    log: Log = Log()
    health: Health = Health()
    leaderElection: LeaderElection = LeaderElection()
    workers: Annotated[int, Meta(ge=1, le=256, description="Objects of one kind that are reconciled at a time.")] = 16
    units: UnitSettings = UnitSettings()
    stock: StockSettings = StockSettings()
    storage: StorageSettings = StorageSettings()
    serverless: ServerlessSettings = ServerlessSettings()
    network: NetworkSettings = NetworkSettings()
    specs: Annotated[dict[str, SpecSettings], Meta(description="By spec name, such as g1.1.")] = {}
