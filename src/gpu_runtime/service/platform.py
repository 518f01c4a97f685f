"""Namespaces and limits of this installation."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpu_runtime.rest.errors import Forbidden

LARGEST_STORAGE = Quantity.parse("16Ti")
# Namespaces of the cluster itself. No configuration allows user workloads there.
PROTECTED = ("kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True)
class Platform:
    """Settings of the installation that the use cases need."""

    system_namespace: str = SYSTEM_NAMESPACE
    stock_namespace: str = STOCK_NAMESPACE
    instance_namespace: str = INSTANCE_NAMESPACE
    pool_namespace: str = "default"
    allowed_namespaces: tuple[str, ...] = ("default", INSTANCE_NAMESPACE)
    most_stock_units: int = 1000
    largest_storage: Quantity = LARGEST_STORAGE
    retention_seconds: float = 24 * 3600.0
    abandoned_after_seconds: float = 30.0
    replay_seconds: float = 2.0
    reserved: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "reserved", (*PROTECTED, self.system_namespace, self.stock_namespace))

    def serves(self, namespace: str) -> bool:
        """Whether users may have objects in the namespace."""
        return namespace not in self.reserved and any(
            fnmatchcase(namespace, pattern) for pattern in self.allowed_namespaces
        )

    def allow(self, namespace: str) -> str:
        """Returns the namespace; Forbidden unless it matches an allowed namespace or pattern, such as `team-*`."""
        if namespace in self.reserved:
            raise Forbidden(f"namespace {namespace} is reserved: use another one, such as {self.instance_namespace}")
        if not self.serves(namespace):
            allowed = ", ".join(self.allowed_namespaces)
            raise Forbidden(f"namespace {namespace} is not allowed: this installation serves {allowed}")
        return namespace
