"""A real broker that lets in only users with credentials, as `gpu-runtime up` runs it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from equipment.nats import SMALL_STREAMS, NatsServer, running_nats
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.credentials.creds import UserCredentials
from gpu_runtime.serverless.credentials.keyring import KeyRing
from gpu_runtime.serverless.credentials.permissions import Role
from gpu_runtime.serverless.credentials.signing import worker_credentials
from gpu_runtime.serverless.subjects import Function
from gpu_runtime.supervisor.files import write_private

CONNECT_SECONDS = 60


@dataclass
class SecuredNats:
    """The broker and all keys. Each connection has the credentials of one user."""

    server: NatsServer
    keys: KeyRing
    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def settings(self, credentials: UserCredentials) -> NatsSettings:
        path = self.folder / f"{next(self._numbers)}.creds"
        write_private(path, credentials.text.encode(), sync=False)
        return replace(self.server.settings, credentialsFile=str(path))

    def role_settings(self, role: Role) -> NatsSettings:
        return self.settings(self.keys.role_credentials(role))

    def worker_settings(self, function: Function) -> NatsSettings:
        """As the activator makes them for a function that the broker has never heard of."""
        return self.settings(worker_credentials(self.keys.worker_signer(), function, issued=int(time.time())))

    @asynccontextmanager
    async def role(self, role: Role) -> AsyncIterator[Broker]:
        async with connected(self.role_settings(role), role) as broker:
            yield broker

    @asynccontextmanager
    async def worker(self, function: Function) -> AsyncIterator[Broker]:
        async with connected(self.worker_settings(function), "worker") as broker:
            yield broker


@asynccontextmanager
async def connected(settings: NatsSettings, name: str) -> AsyncIterator[Broker]:
    async with Broker(settings, name) as broker:
        async with asyncio.timeout(CONNECT_SECONDS):
            await broker.connected()
        yield broker


@asynccontextmanager
async def running_secured_nats(folder: Path) -> AsyncIterator[SecuredNats]:
    """A broker whose streams the runtime-api has created."""
    keys = KeyRing.generate(issued=int(time.time()))
    async with running_nats(folder, extra=keys.server_accounts(), with_streams=False) as server:
        secured = SecuredNats(server, keys, folder)
        async with secured.role("runtime-api") as api:
            assert await streams.ensure(api, SMALL_STREAMS) == []
        yield secured
