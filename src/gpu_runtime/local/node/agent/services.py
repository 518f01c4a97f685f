"""Services on this node: their names in every pod, and their cluster addresses served by relaying connections."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

import structlog

from gpu_runtime.kube.store import Store
from gpu_runtime.local.kinds.services import EndpointSlice, Service
from gpu_runtime.local.node.hosts import ServiceName
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.shim.netlink import Netlink

SERVICE_LABEL = "kubernetes.io/service-name"
CHUNK = 1 << 16


class Front(NamedTuple):
    """An address and port that clients of a Service use."""

    address: str
    port: int


class Back(NamedTuple):
    """An address and port where a pod serves."""

    address: str
    port: int


def backends(services: Iterable[Service], slices: Iterable[EndpointSlice]) -> dict[Front, list[Back]]:
    """The ready endpoints of each Service port. Pure."""
    by_service: dict[tuple[str, str], list[EndpointSlice]] = {}
    for each in slices:
        name = each.metadata.labels.get(SERVICE_LABEL, "")
        if each.addressType == "IPv4":
            by_service.setdefault((each.metadata.namespace, name), []).append(each)
    found: dict[Front, list[Back]] = {}
    for service in services:
        if service.spec.clusterIP in ("", "None"):
            continue
        own = by_service.get((service.metadata.namespace, service.metadata.name), [])
        for port in service.spec.ports:
            if port.protocol == "TCP":
                found[Front(service.spec.clusterIP, port.port)] = sorted(set(_backs(own, port.name)))
    return found


def _backs(slices: Iterable[EndpointSlice], port_name: str) -> Iterator[Back]:
    for each in slices:
        for port in each.ports or ():
            if port.name == port_name and port.protocol == "TCP" and port.port is not None:
                for endpoint in each.endpoints or ():
                    if endpoint.conditions.ready:
                        yield from (Back(address, port.port) for address in endpoint.addresses)


def names(services: Iterable[Service], slices: Iterable[EndpointSlice], *, served: bool) -> list[ServiceName]:
    """The addresses of each Service's name: its cluster address if those are `served`, else its ready endpoints."""
    ready: dict[tuple[str, str], set[str]] = {}
    for each in slices:
        key = (each.metadata.namespace, each.metadata.labels.get(SERVICE_LABEL, ""))
        for endpoint in each.endpoints or ():
            if endpoint.conditions.ready:
                ready.setdefault(key, set()).update(endpoint.addresses)
    found = []
    for service in services:
        namespace, name, address = service.metadata.namespace, service.metadata.name, service.spec.clusterIP
        if served and address not in ("", "None"):
            found.append(ServiceName(namespace, name, address))
        else:
            found += [ServiceName(namespace, name, each) for each in sorted(ready.get((namespace, name), ()))]
    return found


@dataclass
class _Listener:
    servers: list[asyncio.Server]
    backs: list[Back]
    turn: Iterator[int] = field(default_factory=itertools.count)

    def next_back(self) -> Back | None:
        return self.backs[next(self.turn) % len(self.backs)] if self.backs else None


class ServiceKeeper:
    """Follows Services and their endpoints. Cluster addresses are put on the pods' bridge and listened on.

    Without a bridge there is nowhere to put them: names then lead to a pod directly, and a Service port that differs
    from the pod's is not translated.
    """

    def __init__(self, runtime: PodRuntime, services: Store[Service], slices: Store[EndpointSlice]) -> None:
        self._runtime, self._services, self._slices = runtime, services, slices
        self._listeners: dict[Front, _Listener] = {}
        self._addresses: set[str] = set()
        self._refused: set[tuple[Front, str]] = set()
        self._changed = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("services")
        services.subscribe(lambda _: self._changed.set())
        slices.subscribe(lambda _: self._changed.set())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for front in list(self._listeners):
            await self._close(front)
        for task in self._connections:
            task.cancel()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.apply()

    async def apply(self) -> None:
        """Makes names and listeners what the caches say they should be."""
        served = bool(self._runtime.network.bridge)
        services, slices = list(self._services), list(self._slices)
        self._runtime.set_services(names(services, slices, served=served))
        if not served:
            return
        wanted = backends(services, slices)
        self._set_addresses({front.address for front in wanted})
        for front in [front for front in self._listeners if front not in wanted]:
            await self._close(front)
        for front, backs in wanted.items():
            if front in self._listeners:
                self._listeners[front].backs = backs
            else:
                await self._listen(front, backs)

    def _set_addresses(self, wanted: set[str]) -> None:
        with Netlink() as netlink:
            index = netlink.index(self._runtime.network.bridge)
            for address in sorted(wanted - self._addresses):
                with _tolerated(errno.EEXIST):
                    netlink.add_address(index, address, 32)
            for address in sorted(self._addresses - wanted):
                with _tolerated(errno.EADDRNOTAVAIL):
                    netlink.delete_address(index, address, 32)
        self._addresses = wanted

    async def _listen(self, front: Front, backs: list[Back]) -> None:
        """For this cluster's pods, and for the machine itself unless another cluster has the same address there.

        Each listener is bound to where its clients come from: two clusters on one machine use the same addresses, and
        the pods of one must not reach the Services of the other.
        """
        servers = []
        for device in (self._runtime.network.bridge, "lo"):
            try:
                listener = _bound_listener(front, device)
            except OSError as error:
                self._warn_once(front, device, error)
                continue
            servers.append(await asyncio.start_server(lambda r, w: self._connected(front, r, w), sock=listener))
        self._listeners[front] = _Listener(servers, backs)

    def _warn_once(self, front: Front, device: str, error: OSError) -> None:
        if (front, device) in self._refused:
            return
        self._refused.add((front, device))
        taken = error.errno == errno.EADDRINUSE
        self._log.warning(
            f"a Service does not answer {'this machine' if device == 'lo' else 'pods'}",
            address=f"{front.address}:{front.port}",
            problem="another cluster on this machine has its address" if taken else str(error),
        )

    async def _close(self, front: Front) -> None:
        for server in self._listeners.pop(front).servers:
            server.close()

    async def _connected(self, front: Front, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            listener = self._listeners.get(front)
            back = listener.next_back() if listener else None
            if back is not None:
                inner_reader, inner_writer = await asyncio.open_connection(back.address, back.port)
                await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
                inner_writer.close()
        except (OSError, asyncio.CancelledError):
            pass  # the client sees its connection closed, as it would at the pod; asyncio reports a cancelled handler
        finally:
            self._connections.discard(task)
            writer.close()


def _bound_listener(front: Front, device: str) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        listener.bind(front)
    except OSError:
        listener.close()
        raise
    return listener


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


@contextlib.contextmanager
def _tolerated(number: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != number:
            raise
