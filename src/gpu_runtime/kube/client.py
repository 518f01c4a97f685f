"""The Kubernetes API over HTTP: every verb, typed answers, typed errors, no retries of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

import aiohttp
import msgspec

from gpu_runtime.api.meta.object import Key, Object, wire
from gpu_runtime.kube.config import ClusterConfig
from gpu_runtime.kube.decoding import WATCH_LINE, Listing, Page, WatchEvent, decode_event, decode_object, split_lines
from gpu_runtime.kube.errors import Unreadable
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.transport import CONNECT_SECONDS, OPEN_SECONDS, Transport

T = TypeVar("T", bound=Object)
Propagation = Literal["Foreground", "Background", "Orphan"]
PAGE_SIZE = 500
LIMITS = aiohttp.ClientTimeout(total=30.0, connect=CONNECT_SECONDS)  # total: one request with its whole answer


class Patch(StrEnum):
    """How a patch body is to be read."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Query(Generic[T]):
    """Which objects of a kind are meant: by namespace ("" is all), labels and fields."""

    resource: Resource[T]
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace)

    def parameters(self, **more: str | int | bool | None) -> dict[str, str]:
        given = {"labelSelector": self.labels or None, "fieldSelector": self.fields or None, **more}
        return {name: _text(value) for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        place = f" in {self.namespace}" if self.namespace else ""
        selectors = " and ".join(selector for selector in (self.labels, self.fields) if selector)
        return f"{self.resource.qualified_name}{place}{f' with {selectors}' if selectors else ''}"


class Client:
    """Speaks to one API server; an async context manager that owns its connections.

    Requests share at most `connections` connections. Each watch and each followed log opens one more of its own.
    """

    def __init__(self, config: ClusterConfig, *, user_agent: str = "gpu-runtime", connections: int = 100) -> None:
        self.config = config
        self._transport = Transport(config, user_agent=user_agent, connections=connections)

    async def __aenter__(self) -> Client:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def get(self, resource: Resource[T], key: Key, *, subresource: str = "") -> T:
        """The object as the server has it now."""
        path = resource.path(key.namespace, key.name, subresource)
        body = await self.request("GET", path, subject=f"get {resource.qualified_name} {key}")
        return decode_object(resource, body)

    async def list(self, query: Query[T], *, limit: int = PAGE_SIZE) -> Listing[T]:
        """All objects of the query at one resourceVersion, fetched page by page; unreadable ones are apart."""
        listing = Listing[T]()
        token: str | None = None
        while True:
            page = await self.page(query, limit=limit, token=token)
            listing.add(page)
            token = page.token
            if not token:
                return listing

    async def page(self, query: Query[T], *, limit: int = PAGE_SIZE, token: str | None = None) -> Page[T]:
        """One page; its `token` asks for the next, at the same resourceVersion."""
        parameters = query.parameters(**{"limit": limit or None, "continue": token})
        body = await self.request("GET", query.path, parameters=parameters, subject=f"list {query}")
        try:
            return Page.decode(query.resource, body)
        except msgspec.MsgspecError as error:
            raise Unreadable(f"list {query}: the answer is not a list: {error}") from error

    async def create(self, resource: Resource[T], obj: Object | Mapping[str, Any], *, dry_run: bool = False) -> T:
        """POST: fails with AlreadyExists when the name is taken."""
        document = document_of(resource, obj)
        metadata = document["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name") or f"{metadata.get('generateName', '')}*"
        body = await self.request(
            "POST",
            resource.path(namespace),
            body=document,
            parameters=_dry_run(dry_run),
            subject=f"create {resource.qualified_name} {Key(namespace, name)}",
        )
        return decode_object(resource, body)

    async def replace(
        self, resource: Resource[T], obj: Object | Mapping[str, Any], *, subresource: str = "", dry_run: bool = False
    ) -> T:
        """PUT of the whole object: only for types that hold every field of theirs; resourceVersion guards it."""
        document = document_of(resource, obj)
        key = Key(document["metadata"].get("namespace", ""), document["metadata"]["name"])
        body = await self.request(
            "PUT",
            resource.path(key.namespace, key.name, subresource),
            body=document,
            parameters=_dry_run(dry_run),
            subject=f"replace {resource.qualified_name} {key}",
        )
        return decode_object(resource, body)

    async def patch(
        self,
        resource: Resource[T],
        key: Key,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        kind: Patch = Patch.MERGE,
        subresource: str = "",
        field_manager: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        """PATCH; put `metadata.uid` and `metadata.resourceVersion` into it to guard identity."""
        parameters = _dry_run(dry_run)
        if field_manager is not None:
            parameters["fieldManager"] = field_manager
        if force:
            parameters["force"] = "true"
        body = await self.request(
            "PATCH",
            resource.path(key.namespace, key.name, subresource),
            body=patch,
            parameters=parameters,
            content_type=kind.value,
            subject=f"patch {resource.qualified_name} {key}",
        )
        return decode_object(resource, body)

    async def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """DELETE of exactly the object meant: a uid or version that no longer fits is a Conflict."""
        preconditions = {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
        await self.request(
            "DELETE",
            resource.path(key.namespace, key.name),
            body=_delete_options(preconditions, propagation, grace_seconds, dry_run),
            subject=f"delete {resource.qualified_name} {key}",
        )

    async def delete_collection(self, query: Query[T], *, propagation: Propagation | None = None) -> None:
        """DELETE of all objects of the query."""
        await self.request(
            "DELETE",
            query.path,
            parameters=query.parameters(),
            body=_delete_options({}, propagation, None, dry_run=False),
            subject=f"delete all {query}",
        )

    async def watch(
        self,
        query: Query[T],
        *,
        resource_version: str,
        timeout: float,
        silence: float,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes since `resource_version`, until the server ends the watch after about `timeout` seconds.

        A connection that brings no byte for `silence` seconds is closed: a half-open one would stay silent for ever.
        `opened` is called when the server has taken the watch, which may be long before the first change.
        """
        parameters = query.parameters(
            watch=True, allowWatchBookmarks=True, resourceVersion=resource_version, timeoutSeconds=max(1, int(timeout))
        )
        answer = self._transport.stream(
            query.path, subject=f"watch {query}", parameters=parameters, silence=silence, begins_within=OPEN_SECONDS
        )
        async with answer as response:
            opened()
            async for line in split_lines(response.content.iter_any()):
                try:
                    event = decode_event(query.resource, WATCH_LINE.decode(line))
                except msgspec.MsgspecError as error:
                    raise Unreadable(f"watch {query}: the server sent a line that is not an event: {error}") from error
                yield event

    async def stream(
        self, path: str, *, parameters: Mapping[str, str], silence: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The body of an answer, such as the log of a Pod, piece by piece as it arrives."""
        # No limit until the answer begins: before the first line of a log the server may not even send headers.
        answer = self._transport.stream(
            path, subject=f"read {path}", parameters=parameters, silence=silence, begins_within=None
        )
        async with answer as response:
            async for chunk in response.content.iter_any():
                yield chunk

    async def request(
        self,
        method: str,
        path: str,
        *,
        subject: str,
        body: Any = None,
        parameters: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """One request and its whole answer; the errors of kube.errors otherwise."""
        data = msgspec.json.encode(body) if body is not None else None
        return await self._transport.read(
            method, path, subject=subject, data=data, parameters=parameters, content_type=content_type, timeout=LIMITS
        )


def document_of(resource: Resource[Any], obj: Object | Mapping[str, Any]) -> dict[str, Any]:
    """The JSON document of an object, with the kind that the Struct leaves implicit."""
    fields = dict(obj) if isinstance(obj, Mapping) else wire(obj)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **fields}


def _delete_options(
    preconditions: Mapping[str, str], propagation: Propagation | None, grace_seconds: int | None, dry_run: bool
) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions:
        options["preconditions"] = dict(preconditions)
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _dry_run(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
