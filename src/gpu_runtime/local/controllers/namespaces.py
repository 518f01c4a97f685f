"""Namespace deletion: pods first, then everything else; the namespace goes when live reads show it empty."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.controller import Controller, Result
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Delta, Store
from gpu_runtime.local.controllers.all_objects import AllObjects
from gpu_runtime.local.controllers.status_writer import write_status
from gpu_runtime.local.kinds.wire import Condition, Metadata

FINALIZER = "kubernetes"
CHECK_SECONDS = 5.0


class NamespaceSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    finalizers: list[str] = []


class NamespaceStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    phase: str = ""
    conditions: list[Condition] = []


class Namespace(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


NAMESPACES = Resource("", "v1", "Namespace", "namespaces", Namespace, namespaced=False)


def conditions_of(
    old: list[Condition], remaining: Mapping[str, int], finalizers: Mapping[str, int], now: datetime
) -> list[Condition]:
    """The conditions that say what blocks the deletion of a namespace, with the real controller's messages."""
    left = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(remaining.items()))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    conditions = [
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered", False),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
            False,
        ),
        (
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
            False,
        ),
        ("NamespaceContentRemaining", "SomeResourcesRemain", f"Some resources are remaining: {left}", True)
        if left
        else ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed", False),
        (
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {held}",
            True,
        )
        if held
        else (
            "NamespaceFinalizersRemaining",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
            False,
        ),
    ]
    known = {one.type: one for one in old}
    return [
        _condition(known.get(name), name, "True" if holds else "False", reason, message, now)
        for name, reason, message, holds in conditions
    ]


def _condition(old: Condition | None, name: str, status: str, reason: str, message: str, now: datetime) -> Condition:
    since = old.lastTransitionTime if old is not None and old.status == status else now.replace(microsecond=0)
    return Condition(type=name, status=status, reason=reason, message=message, lastTransitionTime=since)


class NamespaceReconciler:
    """Empties a namespace that is being deleted, and lets it go."""

    def __init__(
        self, client: Client, namespaces: Store[Namespace], all_objects: AllObjects, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._all_objects = all_objects
        self._clock = clock

    def feed(self, controller: Controller) -> None:
        """Reconciles a terminating namespace again when an object in it is deleted."""

        def on_change(_: Resource[Metadata], delta: Delta[Metadata]) -> None:
            namespace = delta.object.metadata.namespace
            if namespace and delta.new is None:
                key = Key("", namespace)
                found = self._namespaces.get(key)
                if found is not None and found.metadata.deletionTimestamp is not None:
                    controller.queue.add(key)

        self._all_objects.listen(on_change)

    async def reconcile(self, key: Key) -> Result:
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletionTimestamp is None:
            return Result()
        if FINALIZER not in namespace.spec.finalizers:
            return Result()
        await self._all_objects.synced.wait()
        kinds = [one for one in self._all_objects.kinds.values() if one.namespaced]
        pods = [one for one in kinds if one.plural == "pods" and not one.group]
        left = await self._empty(pods, key.name)
        if not left:  # a pod must not lose its volumes or its network policy while it still runs
            left = await self._empty([one for one in kinds if one not in pods], key.name)
        remaining = {f"{resource.plural}.{resource.group}": len(found) for resource, found in left.items()}
        finalizers: dict[str, int] = {}
        for found in left.values():
            for obj in found:
                for name in obj.metadata.finalizers:
                    finalizers[name] = finalizers.get(name, 0) + 1
        if left:
            conditions = conditions_of(namespace.status.conditions, remaining, finalizers, self._clock.now())
            after = replace(namespace.status, conditions=conditions)
            await write_status(self._client, NAMESPACES, namespace, namespace.status, after)
            return Result(CHECK_SECONDS)
        await self._finalize(namespace)
        return Result()

    async def _empty(self, kinds: list[Resource[Metadata]], namespace: str) -> dict[Resource[Metadata], list[Metadata]]:
        """Deletes all objects of the kinds. Returns those that live reads still show afterwards."""
        left = {}
        for resource in kinds:
            query = Query(resource, namespace=namespace)
            try:
                items = (await self._client.list(query)).items
                if any(obj.metadata.deletionTimestamp is None for obj in items):
                    await self._client.delete_collection(query, propagation="Background")
                    items = (await self._client.list(query)).items
            except NotFound:
                continue  # the kind is no longer served
            if items:
                left[resource] = items
        return left

    async def _finalize(self, namespace: Namespace) -> None:
        kept = [one for one in namespace.spec.finalizers if one != FINALIZER]
        document = {
            "metadata": {"name": namespace.metadata.name, **identity(namespace.metadata)},
            "spec": {"finalizers": kept},
        }
        try:
            await self._client.replace(NAMESPACES, document, subresource="finalize")
        except NotFound:
            return
