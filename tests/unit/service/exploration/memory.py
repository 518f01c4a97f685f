"""An API server in memory: UIDs, versions and preconditions as the real one has them, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key, Object, ObjectMeta
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.decoding import Listing, Page
from gpu_runtime.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from gpu_runtime.kube.resource import Resource
from gpu_runtime.rest.selector import Selector

T = TypeVar("T", bound=Object)
CREATED = datetime(2026, 1, 1, tzinfo=UTC)


class Turn:
    """What a process awaits before each of its calls: whoever drives it decides when, and whether ever."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __await__(self) -> Generator[Turn, None, None]:
        yield self


class Memory:
    """Objects by kind and key. Every call of a process is one atomic step; `direct` calls are for the judge."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, Key], Any] = {}
        self.version = 0
        self.uids = 0

    async def get(self, resource: Resource[T], key: Key) -> T:
        await Turn(f"get {resource.kind} {key.name}")
        return self._find(resource, key)

    async def page(self, query: Query[T], *, limit: int = 500, token: str | None = None) -> Page[T]:
        await Turn(f"list {query.resource.kind}")
        wanted = Selector.parse(query.labels)
        found = [
            obj
            for (kind, key), obj in sorted(self.objects.items(), key=lambda entry: entry[0])
            if kind == query.resource.kind
            and query.namespace in ("", key.namespace)
            and wanted.matches(obj.metadata.labels)
            and query.fields in ("", f"metadata.name={key.name}")
        ]
        return Page(found, [], str(self.version), None)

    async def list(self, query: Query[T]) -> Listing[T]:
        page = await self.page(query)
        return Listing(page.items, [], page.resource_version)

    async def create(self, resource: Resource[T], obj: Object | Mapping[str, Any]) -> T:
        assert not isinstance(obj, Mapping)
        await Turn(f"create {resource.kind} {obj.metadata.name}")
        return self.put(resource, obj)

    async def replace(self, resource: Resource[T], obj: Object | Mapping[str, Any]) -> T:
        assert not isinstance(obj, Mapping)
        await Turn(f"replace {resource.kind} {obj.metadata.name}")
        live = self._find(resource, obj.metadata.key)
        _guard(live.metadata, obj.metadata.uid, obj.metadata.resourceVersion)
        return self._write(resource, obj, obj.metadata)

    async def patch(self, resource: Resource[T], key: Key, patch: Mapping[str, Any]) -> T:
        await Turn(f"patch {resource.kind} {key.name}")
        live = self._find(resource, key)
        meta = patch["metadata"]
        _guard(live.metadata, meta.get("uid"), meta.get("resourceVersion"))
        assert set(patch) == {"metadata"}, "the hand-over changes annotations alone"
        notes = {**live.metadata.annotations, **meta["annotations"]}
        kept = {name: value for name, value in notes.items() if value is not None}
        return self._write(resource, live, replace(live.metadata, annotations=kept))

    async def delete(
        self, resource: Resource[T], key: Key, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        await Turn(f"delete {resource.kind} {key.name}")
        _guard(self._find(resource, key).metadata, uid, resource_version)
        del self.objects[resource.kind, key]
        self.version += 1

    def put(self, resource: Resource[T], obj: Object) -> T:
        """Creates without a turn: the scene before the play."""
        key = obj.metadata.key
        if (resource.kind, key) in self.objects:
            raise _error(AlreadyExists, 409, f"{key} exists")
        uid = self._new_uid(resource.kind, key)
        meta = replace(obj.metadata, uid=uid, creationTimestamp=CREATED, generation=1)
        return self._write(resource, obj, meta)

    def of_kind(self, resource: Resource[T]) -> Sequence[T]:
        return [obj for (kind, _), obj in self.objects.items() if kind == resource.kind]

    def _find(self, resource: Resource[T], key: Key) -> T:
        try:
            found: T = self.objects[resource.kind, key]
        except KeyError:
            raise _error(NotFound, 404, f"{key} is not there") from None
        return found

    def _write(self, resource: Resource[T], obj: Any, meta: ObjectMeta) -> T:
        version = self._new_version(resource.kind, meta.key)
        written: T = replace(obj, metadata=replace(meta, resourceVersion=version))
        self.objects[resource.kind, meta.key] = written
        return written

    def _new_uid(self, kind: str, key: Key) -> str:
        self.uids += 1
        return f"uid-{self.uids}"

    def _new_version(self, kind: str, key: Key) -> str:
        self.version += 1
        return str(self.version)


def _guard(live: ObjectMeta, uid: str | None, version: str | None) -> None:
    if (uid and uid != live.uid) or (version and version != live.resourceVersion):
        raise _error(Conflict, 409, f"{live.key} is not what it was")


def _error(kind: type[ApiError], code: int, message: str) -> ApiError:
    return kind(code, kind.__name__, message, causes=[], retry_after=None)


class Process:
    """A coroutine that is driven one call at a time, by hand: no event loop, so no order but the one chosen."""

    def __init__(self, name: str, start: Callable[[], Awaitable[Any]]) -> None:
        self.name = name
        self.result: Any = None
        self.error: Exception | None = None
        self.done = False
        self.next = "start"
        self._start = start
        self._running: Any = None

    def step(self) -> str:
        """Lets the pending call happen and runs on to the next one; what happened, for the trace."""
        did = self.next
        try:
            if self._running is None:
                self._running = self._start().__await__()
            turn = next(self._running)
            self.next = turn.what
        except StopIteration as end:
            self.done, self.result = True, end.value
        except Exception as error:
            self.done, self.error = True, error
        return f"{self.name}: {did}"

    def stop(self) -> None:
        """Stops it for ever, where it is."""
        if self._running is not None and not self.done:
            self._running.close()
        self.done = True
