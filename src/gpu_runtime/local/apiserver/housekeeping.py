"""What controllers of a real cluster do for the API itself: ServiceAccounts, the CA's ConfigMap, quota counts."""

from __future__ import annotations

import asyncio

from gpu_runtime.local.apiserver.bootstrap import create_missing
from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.errors import Status
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.options import WriteOptions
from gpu_runtime.local.apiserver.records import Event, Object
from gpu_runtime.local.quantities import spelled
from gpu_runtime.local.usage import in_scope, usage_of

_ROOT_CA = "kube-root-ca.crt"
_ABOUT_CA = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other "
    "usage is guaranteed across distributions of Kubernetes clusters."
)


class Housekeeping:
    """Follows committed changes. Counting is put off to the end of the event loop's turn: once for many changes."""

    def __init__(self, cluster: Cluster, ca: str) -> None:
        self._cluster = cluster
        self._ca = ca
        self._uncounted: set[str] = set()

    def start(self) -> None:
        for record in self._cluster.store.all_current("namespaces"):
            self._furnish(record.key)
        for record in self._cluster.store.all_current("resourcequotas"):
            self._recount_soon(record.key.partition("/")[0])
        self._cluster.store.listen(self._committed)

    def _committed(self, event: Event) -> None:
        namespace, _, name = event.record.key.rpartition("/")
        if event.resource == "namespaces":
            if not event.deleted:
                self._furnish(name)
            return
        if event.deleted and (event.resource, name) in (("serviceaccounts", "default"), ("configmaps", _ROOT_CA)):
            self._furnish(namespace)
        if namespace and (event.deleted or event.previous is not None or event.resource == "resourcequotas"):
            self._recount_soon(namespace)

    def _furnish(self, namespace: str) -> None:
        found = self._cluster.store.current("namespaces", namespace)
        if found is None or found.object()["metadata"].get("deletionTimestamp"):
            return
        about = {"kubernetes.io/description": _ABOUT_CA}
        ca = {"metadata": {"name": _ROOT_CA, "annotations": about}, "data": {"ca.crt": self._ca}}
        create_missing(self._cluster, "", "serviceaccounts", namespace, {"metadata": {"name": "default"}})
        create_missing(self._cluster, "", "configmaps", namespace, ca)

    def _recount_soon(self, namespace: str) -> None:
        if not self._uncounted:
            asyncio.get_running_loop().call_soon(self._recount)
        self._uncounted.add(namespace)

    def _recount(self) -> None:
        namespaces, self._uncounted = self._uncounted, set()
        for namespace in namespaces:
            for record in list(self._cluster.store.all_current("resourcequotas", f"{namespace}/")):
                self._count(namespace, record.object())

    def _count(self, namespace: str, quota: Object) -> None:
        hard = (quota.get("spec") or {}).get("hard") or {}
        totals = dict.fromkeys(hard, 0)
        for kind in self._cluster.registry:
            if kind.namespaced and _counted(kind, hard):
                for record in self._cluster.store.all_current(kind.resource, f"{namespace}/"):
                    obj = record.object()
                    if in_scope(quota["spec"].get("scopes") or [], kind.resource, obj):
                        for name, amount in usage_of(kind.resource, obj).items():
                            if name in totals:
                                totals[name] += amount
        used = {name: spelled(amount, hard[name]) for name, amount in totals.items()}
        if (quota.get("status") or {}) != {"hard": hard, "used": used}:
            self._write(namespace, quota["metadata"]["name"], {"hard": hard, "used": used})

    def _write(self, namespace: str, name: str, status: Object) -> None:
        kind = self._cluster.registry.find("", "v1", "resourcequotas")
        assert kind is not None

        def change(found: Object) -> Object:
            return {**found, "status": status}

        try:
            self._cluster.writer.update(kind, namespace, name, change, WriteOptions(), [], subresource="status")
        except Status as refused:
            if refused.code != 404:
                raise


def _counted(kind: Kind, hard: Object) -> bool:
    """Whether any limit of a quota is about this kind, so that others need not be read."""
    if f"count/{kind.resource}" in hard or kind.resource in hard:
        return True
    match kind.resource:
        case "pods":
            return any(name.startswith(("requests.", "limits.")) or name in ("cpu", "memory") for name in hard)
        case "persistentvolumeclaims":
            return any("storage" in name for name in hard)
        case "services":
            return any(name.startswith("services.") for name in hard)
    return False
