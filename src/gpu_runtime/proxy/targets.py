"""Picks the target address of a unit, from its status and the endpoints of its Service, never from the request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.rules import primary_port
from gpu_runtime.kube.store import Store
from gpu_runtime.proxy.cluster_views import ConditionView, UnitView
from gpu_runtime.proxy.endpoints import Endpoints
from gpu_runtime.proxy.errors import Refused, UnitNotFound, UnitNotReady, UnitUnreachable

SCHEMES = ("http", "https")


@dataclass(frozen=True)
class Target:
    """The address that a request is forwarded to."""

    scheme: str
    address: str
    port: int
    host: str
    """Its host name inside the cluster."""
    what: str = "GPU unit"
    """What is there, for people."""
    unreachable: type[Refused] = UnitUnreachable
    """The error when the address does not answer."""


class Targets:
    """Finds the target of a unit in caches."""

    def __init__(self, units: Store[UnitView], endpoints: Endpoints) -> None:
        self._units = units
        self._endpoints = endpoints

    def find(self, key: Key) -> Target:
        """The target; UnitNotFound or UnitNotReady say what is missing."""
        unit = self._units.get(key)
        if unit is None:
            raise UnitNotFound(f"GPU unit {key.name} does not exist in namespace {key.namespace}")
        port = primary_port(unit.spec.access, unit.spec.template.ports)
        if port is None:
            raise UnitNotFound(f"GPU unit {key} has no port")
        scheme = unit.spec.access.scheme
        if scheme not in SCHEMES:
            raise UnitNotFound(f"GPU unit {key} has the scheme {scheme}: only http and https are forwarded")
        service = unit.status.serviceName
        for address, number in self._endpoints.ready(key.namespace, service, port.name) if service else ():
            return Target(scheme, address, number, f"{service}.{key.namespace}.svc.cluster.local:{port.port}")
        raise UnitNotReady(f"GPU unit {key} is not ready{why_not(unit.status.conditions, 'Ready')}")


def why_not(conditions: Iterable[ConditionView], kind: str) -> str:
    """What the condition says, to be put behind "not ready"; nothing if it is true or absent."""
    for condition in conditions:
        if condition.type == kind and condition.status != "True":
            return f": {condition.reason}: {condition.message}".rstrip(": ")
    return ""
