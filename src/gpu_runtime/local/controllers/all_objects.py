"""Follows the metadata of every object of every kind, for garbage collection and namespace deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec
import structlog

from gpu_runtime.api.meta.object import Object
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.errors import KubeError, NotFound
from gpu_runtime.kube.reflector import Reflector
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Delta, Store, by_owner
from gpu_runtime.local.kinds.wire import Metadata

OWNER, UID, NAMESPACE = "owner", "uid", "namespace"
CUSTOM_KINDS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", Metadata, namespaced=False
)
DISCOVERY_SECONDS = 30.0
SETTLE_SECONDS = 0.2
_NEEDED_VERBS = {"list", "watch", "delete"}
_NOT_FOLLOWED = {"events"}  # many, short-lived, and nobody's owner
Listener = Callable[[Resource[Metadata], Delta[Metadata]], None]


class _ApiResource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False
    verbs: list[str] = []


class _ResourceList(msgspec.Struct, frozen=True):
    resources: list[_ApiResource] = []


class _Version(msgspec.Struct, frozen=True):
    groupVersion: str
    version: str


class _Group(msgspec.Struct, frozen=True):
    name: str
    preferredVersion: _Version


class _GroupList(msgspec.Struct, frozen=True):
    groups: list[_Group] = []


async def discover(client: Client) -> list[Resource[Metadata]]:
    """The kinds that the server lists, watches and deletes, each in its preferred version."""
    body = await client.request("GET", "/apis", subject="discover groups")
    groups = [("", "v1", "/api/v1")] + [
        (group.name, group.preferredVersion.version, f"/apis/{group.preferredVersion.groupVersion}")
        for group in msgspec.json.decode(body, type=_GroupList).groups
    ]
    found: list[Resource[Metadata]] = []
    for group, version, path in groups:
        try:
            listed = msgspec.json.decode(
                await client.request("GET", path, subject=f"discover {path}"), type=_ResourceList
            )
        except NotFound:
            continue  # the last CRD of the group was deleted meanwhile
        found += [
            Resource(group, version, one.kind, one.name, Metadata, one.namespaced)
            for one in listed.resources
            if "/" not in one.name and set(one.verbs) >= _NEEDED_VERBS
        ]
    return found


def _by_uid(obj: Object) -> Iterable[str]:
    return (obj.metadata.uid,)


def _by_namespace(obj: Object) -> Iterable[str]:
    return (obj.metadata.namespace,)


class AllObjects:
    """Follows all kinds there are, custom ones from the moment that they are served."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.stores: dict[Resource[Metadata], Store[Metadata]] = {}
        self.synced = asyncio.Event()
        """Set when every kind of the first discovery has been listed."""
        self.kinds: dict[tuple[str, str], Resource[Metadata]] = {}
        self._tasks: dict[Resource[Metadata], asyncio.Task[None]] = {}
        self._listeners: list[Listener] = []
        self._kind_listeners: list[Callable[[], None]] = []
        self._kinds_changed = asyncio.Event()
        self._log = structlog.get_logger("all objects")

    def listen(self, listener: Listener) -> None:
        """Calls `listener` for each change of any object."""
        self._listeners.append(listener)

    def listen_to_kinds(self, listener: Callable[[], None]) -> None:
        """Calls `listener` each time that the set of known kinds changes."""
        self._kind_listeners.append(listener)

    def find(self, index: str, value: str) -> list[tuple[Resource[Metadata], Metadata]]:
        """Objects of all kinds under the value of an index: OWNER, UID or NAMESPACE."""
        return [(resource, obj) for resource, store in self.stores.items() for obj in store.find(index, value)]

    def kind(self, api_version: str, kind: str) -> Resource[Metadata] | None:
        """The kind that an owner reference names, in any version."""
        group = api_version.rpartition("/")[0]
        return self.kinds.get((group, kind))

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._follow(group)
                except KubeError as error:
                    self._log.warning("cannot discover the server's kinds; retrying", problem=str(error))
                    await asyncio.sleep(1.0)
                    continue
                try:
                    async with asyncio.timeout(DISCOVERY_SECONDS):
                        await self._kinds_changed.wait()
                except TimeoutError:
                    continue
                await asyncio.sleep(
                    SETTLE_SECONDS
                )  # a manifest brings several CRDs, and each takes a moment to be served
                self._kinds_changed.clear()

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        found = await discover(self._client)
        known, self.kinds = self.kinds, {(one.group, one.kind): one for one in found}
        followed = {one for one in found if one.plural not in _NOT_FOLLOWED}
        started = []
        for resource in followed - self.stores.keys():
            reflector = self._reflector(resource)
            self.stores[resource] = reflector.store
            self._tasks[resource] = group.create_task(reflector.run())
            started.append(reflector)
        for resource in self.stores.keys() - followed:
            self._tasks.pop(resource).cancel()
            del self.stores[resource]
        if not self.synced.is_set():
            for reflector in started:
                await reflector.synced.wait()
            self.synced.set()
        if self.kinds != known:
            for listener in self._kind_listeners:
                listener()

    def _reflector(self, resource: Resource[Metadata]) -> Reflector[Metadata]:
        store = Store[Metadata]()
        store.index(OWNER, by_owner)
        store.index(UID, _by_uid)
        store.index(NAMESPACE, _by_namespace)
        store.subscribe(lambda delta: self._notify(resource, delta))
        return Reflector(self._client, Query(resource), store)

    def _notify(self, resource: Resource[Metadata], delta: Delta[Metadata]) -> None:
        if resource == CUSTOM_KINDS:
            self._kinds_changed.set()
        for listener in self._listeners:
            listener(resource, delta)
