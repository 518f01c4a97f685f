"""Two replicas of the API and the controllers, each behind a proxy of its own that kills them and loses their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Any, Literal

import aiohttp

from equipment.clock import Later
from equipment.fault_proxy import FaultProxy, writes
from equipment.fault_proxy.faults import Fault, Held
from equipment.servers import ApiServer
from gpu_runtime.config import ControllerManagerSettings, StockSettings
from gpu_runtime.controllers.registration import add_controllers
from gpu_runtime.kube import Client, Manager, load_config
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from kube.http.api import Answer, Api, Places

LOST = 0.02  # share of all writes whose answer is lost
UNSEEN = 0.01  # share of writes that the server never sees
LATE = 0.01  # share of writes that the server does later, when their sender has been told a failure
SIDES: tuple[Literal["before", "after"], ...] = ("before", "after")


class Process:
    """One process behind its proxy. It can die at any write, and is started again."""

    most_writes: int
    """Between two crashes."""

    def __init__(self, world: Places, proxy: FaultProxy, rng: Random) -> None:
        self.world, self.proxy, self.rng = world, proxy, rng
        self.crashes = 0
        self._stack = AsyncExitStack()
        self._faults: list[Fault] = []
        self._late: Held | None = None

    async def start(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        self.kill()
        await self._stack.aclose()

    def disturb(self) -> None:
        """From now on some of its writes are lost, done without an answer, or done late."""
        script = self.proxy.on
        self._faults = [
            script(writes(), chance=LOST, seed=self.rng.randrange(10**6)).drop_response(),
            script(writes(), chance=UNSEEN, seed=self.rng.randrange(10**6)).drop_request(),
        ]
        self._late = script(writes(), chance=LATE, seed=self.rng.randrange(10**6)).postpone(504)

    def let_late_writes_go(self) -> None:
        if self._late is not None:
            self._late.let_go()

    def leave_alone(self) -> int:
        """Ends all faults. Returns how many writes they hit."""
        faults = [*self._faults, *([self._late] if self._late is not None else [])]
        for fault in faults:
            fault.remove()
        self._faults, self._late = [], None
        return sum(len(fault.hits) for fault in faults)

    async def die_again_and_again(self, over: asyncio.Event) -> None:
        """Kills it before or after one of its next writes, and starts it again."""
        while not over.is_set():
            died = asyncio.Event()

            def slay(died: asyncio.Event = died) -> None:
                self.kill()
                died.set()

            kill = self.proxy.kill_at(self.rng.randint(1, self.most_writes), slay, self.rng.choice(SIDES))
            waits = [asyncio.ensure_future(died.wait()), asyncio.ensure_future(over.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
            if died.is_set():
                self.crashes += 1
                await self.stop()
                kill.remove()
                await self.start()
            else:
                kill.remove()


class Replica(Process):
    """The API."""

    most_writes = 20
    api: Api | None = None

    async def start(self) -> None:
        self._stack = AsyncExitStack()
        self.api = await self._stack.enter_async_context(self.world.api(self.proxy.server))

    def kill(self) -> None:
        api, self.api = self.api, None
        if api is not None:
            api.kill()

    async def call(self, method: str, path: str, body: Any = None) -> Answer | None:
        """The answer; None when the replica is away or dies meanwhile."""
        if self.api is None:
            return None
        try:
            return await self.api.call(method, path, body)
        except (aiohttp.ClientError, RuntimeError, OSError):
            return None


class Controllers(Process):
    """The controller-manager. In some of its lives its clock is ahead: then it judges each record as soon as it can."""

    most_writes = 60
    _task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._stack = AsyncExitStack()
        self._task = await self._stack.enter_async_context(
            controllers(self.world, self.proxy.server, self.rng.choice([Later(), SYSTEM_CLOCK]))
        )

    def kill(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()


@asynccontextmanager
async def controllers(
    world: Places, server: ApiServer, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[asyncio.Task[None]]:
    """The controllers as one task, which can be cancelled."""
    stop = asyncio.Event()
    settings = ControllerManagerSettings(
        installNamespace=world.system, stock=StockSettings(namespaces=(world.stock,)), workers=8
    )
    async with Client(load_config(server.kubeconfig), user_agent="controller") as client:
        manager = Manager(client)
        add_controllers(manager, settings, clock=clock)
        task = asyncio.create_task(manager.run(stop))
        try:
            leading = asyncio.ensure_future(manager.leading.wait())
            await asyncio.wait([leading, task], return_when=asyncio.FIRST_COMPLETED, timeout=60)
            leading.cancel()
            yield task
        finally:
            stop.set()
            with suppress(asyncio.CancelledError):
                await task
