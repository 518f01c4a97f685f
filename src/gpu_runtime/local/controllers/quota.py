"""ResourceQuota usage, counted anew when something that was charged has gone.

The API server charges a quota when it admits an object; nobody but this controller gives anything back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.controller import Controller, Result
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Delta, Store
from gpu_runtime.local.controllers.everything import NAMESPACE, Everything
from gpu_runtime.local.controllers.pods import Pod
from gpu_runtime.local.controllers.scheduler.requests import requests
from gpu_runtime.local.controllers.status_writer import write_status
from gpu_runtime.local.controllers.storage import Claim
from gpu_runtime.local.controllers.wire import Metadata

_COUNTED_BY_NAME = {
    "services",
    "configmaps",
    "secrets",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
}
_COMPUTE = {"cpu", "memory", "ephemeral-storage"}
_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"


class QuotaSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    hard: dict[str, str] = {}
    scopes: list[str] = []


class QuotaStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class ResourceQuota(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas", ResourceQuota)
Count = Callable[[str], int]
"""How many objects of `plural.group` there are in the namespace."""


def usage(quota: ResourceQuota, pods: Iterable[Pod], claims: Iterable[Claim], count: Count) -> dict[str, str]:
    """What is used of each resource that the quota names."""
    charged = [pod for pod in pods if not pod.finished and in_scope(pod, quota.spec.scopes)]
    claimed = list(claims)
    return {name: _used(name, charged, claimed, count) for name in quota.spec.hard}


def in_scope(pod: Pod, scopes: Iterable[str]) -> bool:
    tests = {
        "Terminating": pod.spec.activeDeadlineSeconds is not None,
        "NotTerminating": pod.spec.activeDeadlineSeconds is None,
        "BestEffort": _best_effort(pod),
        "NotBestEffort": not _best_effort(pod),
        "PriorityClass": bool(pod.spec.priorityClassName),
    }
    return all(tests.get(scope, True) for scope in scopes)


def _best_effort(pod: Pod) -> bool:
    containers = (*pod.spec.initContainers, *pod.spec.containers)
    return not any({"cpu", "memory"} & {*one.resources.requests, *one.resources.limits} for one in containers)


def _used(name: str, pods: list[Pod], claims: list[Claim], count: Count) -> str:
    if name == "pods":
        return str(len(pods))
    if name.startswith("count/"):
        return str(count(name.removeprefix("count/")))
    if name in _COUNTED_BY_NAME:
        return str(count(name))
    if name.endswith(f"{_CLASS_SUFFIX}requests.storage") or name == "requests.storage":
        chosen = [one for one in claims if _of_class(one, name)]
        return _total(one.requested for one in chosen)
    if name.endswith(f"{_CLASS_SUFFIX}persistentvolumeclaims"):
        return str(sum(_of_class(one, name) for one in claims))
    if name.startswith("limits."):
        return _total(_limits(pod, name.removeprefix("limits.")) for pod in pods)
    if name.startswith("requests.") or name in _COMPUTE:
        resource = name.removeprefix("requests.")
        return _total(_requested(pod, resource) for pod in pods)
    return "0"


def _of_class(claim: Claim, name: str) -> bool:
    storage_class, suffixed, _ = name.partition(_CLASS_SUFFIX)
    return not suffixed or claim.class_name == storage_class


def _requested(pod: Pod, resource: str) -> str:
    written = next(
        (one.resources.requests[resource] for one in pod.spec.containers if resource in one.resources.requests), "0"
    )
    return str(Quantity(requests(pod).get(resource, 0), Quantity.parse(written).format))


def _limits(pod: Pod, resource: str) -> str:
    total = Quantity(0)
    for one in pod.spec.containers:
        total += Quantity.parse(one.resources.limits.get(resource, "0"))
    peak = max(
        (Quantity.parse(one.resources.limits.get(resource, "0")) for one in pod.spec.initContainers), default=total
    )
    return str(max(total, peak))


def _total(amounts: Iterable[str]) -> str:
    total = Quantity(0)
    for amount in amounts:
        total += Quantity.parse(amount)
    return str(total)


def uncounted(quota: ResourceQuota) -> list[Key]:
    """Concerns a quota that is new or was changed by hand, and not one that the API server has charged."""
    return [quota.metadata.key] if quota.spec.hard != quota.status.hard else []


class QuotaReconciler:
    """Writes `status.used` when it is not what there is."""

    def __init__(
        self,
        client: Client,
        quotas: Store[ResourceQuota],
        pods: Store[Pod],
        claims: Store[Claim],
        everything: Everything,
    ) -> None:
        self._client = client
        self._quotas = quotas
        self._pods = pods
        self._claims = claims
        self._everything = everything

    def feed(self, controller: Controller) -> None:
        """Quotas are counted when something in their namespace has gone.

        Never when something was made: it is charged already, and our cache may not show it yet.
        """

        def recount(namespace: str) -> None:
            for quota in self._quotas.find(NAMESPACE, namespace):
                controller.queue.add(quota.metadata.key)

        def on_pod(delta: Delta[Pod]) -> None:
            ended = delta.new is None or (delta.new.finished and (delta.old is None or not delta.old.finished))
            if ended:
                recount(delta.object.metadata.namespace)

        def on_any(resource: Resource[Metadata], delta: Delta[Metadata]) -> None:
            if delta.new is None and resource.namespaced and resource.plural != "pods":
                recount(delta.object.metadata.namespace)

        self._pods.subscribe(on_pod)
        self._everything.listen(on_any)

    async def reconcile(self, key: Key) -> Result:
        quota = self._quotas.get(key)
        if quota is None or quota.metadata.deletionTimestamp is not None:
            return Result()
        await self._everything.synced.wait()
        used = usage(
            quota,
            self._pods.find(NAMESPACE, key.namespace),
            self._claims.find(NAMESPACE, key.namespace),
            lambda name: self._count(key.namespace, name),
        )
        after = QuotaStatus(hard=quota.spec.hard, used=used)
        if not _same(quota.status, after):
            await write_status(self._client, QUOTAS, quota, quota.status, after)
        return Result()

    def _count(self, namespace: str, name: str) -> int:
        return sum(
            len(store.find(NAMESPACE, namespace))
            for resource, store in self._everything.stores.items()
            if resource.qualified_name == name
        )


def _same(before: QuotaStatus, after: QuotaStatus) -> bool:
    return _amounts(before.hard) == _amounts(after.hard) and _amounts(before.used) == _amounts(after.used)


def _amounts(quantities: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in quantities.items()}
