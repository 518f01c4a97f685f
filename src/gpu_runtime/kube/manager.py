"""Runs the controllers of a process: starts caches, then the election, then controllers; stops in reverse order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from gpu_runtime.api.meta.object import Object
from gpu_runtime.kube.client import Client, Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.controller import DEADLINE_SECONDS, WORKERS, Controller, Reconcile, Source
from gpu_runtime.kube.errors import TaskEnded
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.lease import Election
from gpu_runtime.kube.metrics import Metrics
from gpu_runtime.kube.reflector import WATCH_SECONDS, Reflector
from gpu_runtime.kube.store import Store

T = TypeVar("T", bound=Object)
DRAIN_SECONDS = 20.0
FLUSH_SECONDS = 5.0  # to write the last events: an unreachable server must not delay handing back the lease


class Manager:
    """Runs reflectors always, and controllers while it leads (or always, without an election)."""

    def __init__(
        self,
        client: Client,
        *,
        election: Election | None = None,
        recorder: Recorder | None = None,
        drain_seconds: float = DRAIN_SECONDS,
        watch_seconds: float = WATCH_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.client = client
        self.metrics = Metrics()
        self.leading = asyncio.Event()
        self._election = election
        self._recorder = recorder
        self._drain_seconds = drain_seconds
        self._watch_seconds = watch_seconds
        self._clock = clock
        self._reflectors: dict[Query[Any], Reflector[Any]] = {}
        self._controllers: list[Controller] = []
        self._stop: asyncio.Event | None = None
        self._log = structlog.get_logger("manager")

    def cache(self, query: Query[T]) -> Store[T]:
        """The store of a query; equal queries share one store."""
        if query not in self._reflectors:
            self._reflectors[query] = Reflector(self.client, query, Store[T](), watch_seconds=self._watch_seconds)
        store: Store[T] = self._reflectors[query].store
        return store

    def controller(
        self,
        name: str,
        reconcile: Reconcile,
        sources: Sequence[Source[Any]],
        *,
        workers: int = WORKERS,
        deadline: float = DEADLINE_SECONDS,
    ) -> Controller:
        """A controller that runs while this process leads."""
        controller = Controller(
            name, reconcile, sources, workers=workers, deadline=deadline, clock=self._clock, metrics=self.metrics
        )
        self._controllers.append(controller)
        return controller

    def checks(self) -> Mapping[str, str | None]:
        """What is wrong, by part of the process. A standby with warm caches is ready; an idle leader is not."""
        for reflector in self._reflectors.values():
            self.metrics.cached(reflector.query.resource.qualified_name, len(reflector.store), len(reflector.skipped))
        found = {f"cache of {query}": reflector.problem for query, reflector in self._reflectors.items()}
        if self._election is not None:
            found[f"lease {self._election.key}"] = self._doubt(self._election) or self._election.problem
        for controller in self._controllers:
            found[f"controller {controller.name}"] = self._idle(controller)
        found["process"] = "ending" if self._stop is not None and self._stop.is_set() else None
        return found

    def _idle(self, controller: Controller) -> str | None:
        if self.leading.is_set() is controller.running:
            return None
        # The next term begins when the work of the last one has ended.
        return (
            "still finishing the work of a lost term"
            if controller.running
            else "not running although this process leads"
        )

    def _doubt(self, election: Election) -> str | None:
        if self.leading.is_set() and not election.holds():
            return "this process did not renew it in time; its controllers are being stopped"
        return None

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop`; then running reconciles end, the last events are written, the lease is handed back.

        A cache, controller or recorder that ends before `stop` is a defect: TaskEnded is raised and ends the process.
        """
        self._stop = stop
        async with asyncio.TaskGroup() as background:
            parts = [(f"the cache of {query}", reflector.run()) for query, reflector in self._reflectors.items()]
            if self._recorder is not None:
                parts.append(("the recorder of events", self._recorder.run()))
            tasks = [background.create_task(_lasting(name, work)) for name, work in parts]
            try:
                await self._lead_until(stop)
            finally:
                for task in tasks:
                    task.cancel()
        await self._farewell()

    async def _lead_until(self, stop: asyncio.Event) -> None:
        if not await _unless(stop, self._synced()):
            return
        while not stop.is_set():
            if self._election is not None and not await _unless(stop, self._election.acquire()):
                return
            await self._work(stop)

    async def _synced(self) -> None:
        for reflector in self._reflectors.values():
            await reflector.synced.wait()

    async def _work(self, stop: asyncio.Event) -> None:
        """Runs the controllers until `stop` or until leadership is lost."""
        election = self._election
        permitted = election.holds if election is not None else _always
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(self._while_leading(controller, permitted)) for controller in self._controllers]
            self.leading.set()
            self.metrics.leading(True)
            try:
                lost = await _unless(stop, election.keep() if election is not None else asyncio.Event().wait())
            finally:
                self.leading.clear()
                self.metrics.leading(False)
            for controller in self._controllers:
                controller.stop()
            if work and not lost:  # after a lost lease another process may already work, so end at once
                await asyncio.wait(work, timeout=self._drain_seconds)
            for task in work:
                task.cancel()

    async def _while_leading(self, controller: Controller, permitted: Callable[[], bool]) -> None:
        await _lasting(f"controller {controller.name}", controller.run(permitted), must_last=self.leading.is_set)

    async def _farewell(self) -> None:
        if self._recorder is not None:
            try:
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._recorder.flush()
            except TimeoutError:
                self._log.warning("the last events were not written in time", seconds=FLUSH_SECONDS)
        if self._election is not None:
            await self._election.release()


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Awaits `work`; False when `stop` was set first, and then the work is cancelled."""
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        for each in (task, stopping):
            each.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


async def _lasting(name: str, work: Coroutine[Any, Any, None], *, must_last: Callable[[], bool] = lambda: True) -> None:
    """Awaits `work`; TaskEnded when it returns, or cancels itself, while `must_last()` is true."""
    try:
        await work
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is None or task.cancelling():
            raise
    if must_last():
        structlog.get_logger("manager").critical("a part of this process ended by itself: the process ends", part=name)
        raise TaskEnded(f"{name} ended by itself: the process cannot do its work and ends")


def _always() -> bool:
    return True
