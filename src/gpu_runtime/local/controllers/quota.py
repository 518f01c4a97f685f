"""Counts the usage of a ResourceQuota again when a charged object is gone.

The API server charges a quota when it admits an object; only this controller lowers the usage again.
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
from gpu_runtime.local.controllers.all_objects import NAMESPACE, AllObjects
from gpu_runtime.local.controllers.status_writer import write_status
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.storage import Claim
from gpu_runtime.local.kinds.wire import Metadata
from gpu_runtime.local.quantities import NANO, spelled
from gpu_runtime.local.usage import counted_kind, in_scope, usage_of


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
    totals = {name: NANO * count(kind) if (kind := counted_kind(name)) else 0 for name in quota.spec.hard}
    measured: dict[str, Iterable[Pod | Claim]] = {"pods": pods, "persistentvolumeclaims": claims}
    for resource, objects in measured.items():
        for obj in map(msgspec.to_builtins, objects):
            if not in_scope(quota.spec.scopes, resource, obj):
                continue
            for name, amount in usage_of(resource, obj).items():
                if name in totals and counted_kind(name) is None:
                    totals[name] += amount
    return {name: spelled(amount, quota.spec.hard[name]) for name, amount in totals.items()}


def uncounted(quota: ResourceQuota) -> list[Key]:
    """The key of a quota that is new or whose limits changed. A charge of the API server needs no new count."""
    return [quota.metadata.key] if quota.spec.hard != quota.status.hard else []


class QuotaReconciler:
    """Writes `status.used` when it differs from the real usage."""

    def __init__(
        self,
        client: Client,
        quotas: Store[ResourceQuota],
        pods: Store[Pod],
        claims: Store[Claim],
        all_objects: AllObjects,
    ) -> None:
        self._client = client
        self._quotas = quotas
        self._pods = pods
        self._claims = claims
        self._all_objects = all_objects

    def feed(self, controller: Controller) -> None:
        """Counts quotas again when an object in their namespace is gone.

        Never when an object was created: it is charged already, and our cache may not show it yet.
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
        self._all_objects.listen(on_any)

    async def reconcile(self, key: Key) -> Result:
        quota = self._quotas.get(key)
        if quota is None or quota.metadata.deletionTimestamp is not None:
            return Result()
        await self._all_objects.synced.wait()
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
            for resource, store in self._all_objects.stores.items()
            if resource.qualified_name == name
        )


def _same(before: QuotaStatus, after: QuotaStatus) -> bool:
    return _amounts(before.hard) == _amounts(after.hard) and _amounts(before.used) == _amounts(after.used)


def _amounts(quantities: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in quantities.items()}
