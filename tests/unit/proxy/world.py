"""Units, storages, their endpoints, and a program that answers for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import aiohttp

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.access import Access
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO
from gpu_runtime.api.v1alpha1.gpustorage import Accessor
from gpu_runtime.edge.names import LOOPBACK_NAMES
from gpu_runtime.kube.store import Store
from gpu_runtime.proxy.app import Routes, application
from gpu_runtime.proxy.cluster_views import (
    SERVICE_NAME,
    AccessorView,
    ConditionView,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    PortView,
    StorageSpecView,
    StorageStatusView,
    StorageView,
    TemplateView,
    UnitSpecView,
    UnitStatusView,
    UnitView,
)
from gpu_runtime.proxy.endpoints import Endpoints, Network
from gpu_runtime.proxy.guard import Guard
from gpu_runtime.proxy.server import runner_of
from gpu_runtime.proxy.storages import StorageTargets
from gpu_runtime.proxy.targets import Targets

UNIT = "/units/runtime-instance/demo"
STORAGE = "/storages/runtime-instance/data"


def a_unit(name: str = "demo", *ports: str, service: str | None = None, **access: str) -> UnitView:
    return UnitView(
        metadata=ObjectMeta(name=name, namespace="runtime-instance", uid=name, resourceVersion="1"),
        spec=UnitSpecView(
            TemplateView([PortView(port, 8080 + number) for number, port in enumerate(ports or ("http",))]),
            Access(**access),
        ),
        status=UnitStatusView(
            name if service is None else service,
            [ConditionView("Ready", "False", "PodStartupFailed", "the image is not there")],
        ),
    )


def a_storage(
    name: str = "data", *, enabled: bool = True, service: str = "files", holder: str | None = None
) -> StorageView:
    held = {} if holder is None else {ATTACHED_TO: holder}
    not_ready = ConditionView("AccessorReady", "False", "StorageAccessorPending", "its pod is being created")
    return StorageView(
        metadata=ObjectMeta(name=name, namespace="runtime-instance", uid=name, resourceVersion="1", annotations=held),
        spec=StorageSpecView(Accessor(enabled=enabled)),
        status=StorageStatusView(AccessorView(service), [not_ready]),
    )


def a_slice(
    address: str = "10.0.0.9",
    port: int = 8080,
    *,
    service: str = "demo",
    name: str = "http",
    ready: bool | None = True,
    kind: str = "IPv4",
) -> EndpointSlice:
    labels = {SERVICE_NAME: service}
    return EndpointSlice(
        metadata=ObjectMeta(name=f"{service}-x", namespace="runtime-instance", resourceVersion="1", labels=labels),
        addressType=kind,
        endpoints=[Endpoint([address], EndpointConditions(ready))],
        ports=[EndpointPort(name, port, "TCP")],
    )


def targets(units: list[UnitView], slices: list[EndpointSlice], refused: tuple[Network, ...] = ()) -> Targets:
    unit_store = Store[UnitView]()
    unit_store.replace(units, "1")
    return Targets(unit_store, endpoints(slices, refused))


def storage_targets(storages: list[StorageView], slices: list[EndpointSlice]) -> StorageTargets:
    storage_store = Store[StorageView]()
    storage_store.replace(storages, "1")
    return StorageTargets(storage_store, endpoints(slices))


def endpoints(slices: list[EndpointSlice], refused: tuple[Network, ...] = ()) -> Endpoints:
    slice_store = Store[EndpointSlice]()
    found = Endpoints(slice_store, refused)
    slice_store.replace(slices, "1")
    return found


@dataclass
class RawUnit:
    """A unit that keeps every byte it is sent, and answers each connection with the same bytes."""

    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    received: list[bytes] = field(default_factory=list)
    port: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[RawUnit]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.received)
        self.received.append(b"")
        head = await reader.readuntil(b"\r\n\r\n")
        self.received[number] += head
        if b"chunked" in head.lower():
            self.received[number] += await reader.readuntil(b"0\r\n\r\n")
        elif b"content-length: " in head.lower():
            length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
            with suppress(asyncio.IncompleteReadError):  # a client that left
                self.received[number] += await reader.readexactly(int(length))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def proxy_to(port: int, unit: UnitView | None = None, storage: StorageView | None = None) -> AsyncIterator[int]:
    """The port of a proxy that knows the unit `demo` and the storage `data`, both served on this machine's port."""
    slices = [a_slice("127.0.0.1", port), a_slice("127.0.0.1", port, service="files")]
    routes = Routes(targets([unit or a_unit()], slices), storage_targets([storage or a_storage()], slices))
    runner = runner_of(application(routes, Guard(LOOPBACK_NAMES)), drain_seconds=1)
    await runner.setup()
    try:
        yield await runner.listen("127.0.0.1", 0)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def got(port: int) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer to a plain GET of the unit through the proxy."""
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}{UNIT}/") as answer:
        yield answer


async def send(port: int, request: bytes) -> bytes:
    """All that comes back for these bytes until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
