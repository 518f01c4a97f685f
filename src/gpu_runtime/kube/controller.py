"""The controller loop: changes add keys to a queue, workers reconcile keys, errors are retried with backoff."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import ApiError, Conflict, KubeError, RetryAfter, Terminal
from gpu_runtime.kube.metrics import Metrics
from gpu_runtime.kube.ownership import ByAnnotation
from gpu_runtime.kube.queue import Queue
from gpu_runtime.kube.resource import Resource
from gpu_runtime.kube.store import Delta, Store

T = TypeVar("T", bound=Object)
DEADLINE_SECONDS = 60.0
WORKERS = 4
DOUBT_SECONDS = 0.5  # how long a worker waits before it asks `permitted` again


@dataclass(frozen=True)
class Result:
    """The result of a reconcile: done, or when to reconcile again."""

    requeue_after: float | None = None


Reconcile = Callable[[Key], Awaitable[Result]]


@dataclass(frozen=True)
class Source(Generic[T]):
    """Tells a controller which keys a change of a cached object concerns."""

    store: Store[T]
    keys: Callable[[T], Iterable[Key]]
    urgent: Callable[[T], int] = lambda _: 0
    is_primary: bool = False

    def feed(self, add: Callable[[Key, int], None]) -> None:
        """From now on, calls `add(key, urgency)` for every key that a change concerns."""

        def on_change(delta: Delta[T]) -> None:
            # Both versions count: a child that lost its label or owner still triggers its former owner.
            for obj in (delta.old, delta.new):
                if obj is not None:
                    for key in self.keys(obj):
                        add(key, self.urgent(obj))

        self.store.subscribe(on_change)


def primary(store: Store[T], *, urgent: Callable[[T], bool] = lambda _: False) -> Source[T]:
    """The kind that the controller reconciles. `urgent` selects objects that a user waits for."""
    return Source(store, lambda obj: (obj.metadata.key,), urgent=urgent, is_primary=True)


def _always(_: Any) -> bool:
    """Changes of related objects are urgent: work on the object itself has begun and is finished before new work."""
    return True


def owned(store: Store[T], owner: Resource[Any], *, urgent: Callable[[T], int] = _always) -> Source[T]:
    """Children: a change concerns the object of kind `owner` that controls them, before and after the change."""
    group = owner.api_version.rpartition("/")[0]

    def owners(child: T) -> Iterable[Key]:
        reference = child.metadata.controller
        if reference is None or reference.kind != owner.kind or reference.apiVersion.rpartition("/")[0] != group:
            return ()
        return (Key(child.metadata.namespace if owner.namespaced else "", reference.name),)

    return Source(store, owners, urgent=urgent)


def owned_by_annotation(
    store: Store[T], owner: Resource[Any], ownership: ByAnnotation, *, urgent: Callable[[T], int] = _always
) -> Source[T]:
    """`owned` for children without owner reference. A child whose owner is gone also adds the owner's key."""

    def owners(child: T) -> Iterable[Key]:
        named = ownership.owner_of(child.metadata)
        if named is None or not named.name:
            return ()
        return (Key(child.metadata.namespace if owner.namespaced else "", named.name),)

    return Source(store, owners, urgent=urgent)


def mapped(store: Store[T], keys: Callable[[T], Iterable[Key]]) -> Source[T]:
    """Any other relation: `keys` returns the keys that a change of the object triggers."""
    return Source(store, keys, urgent=_always)


class Controller:
    """Works off its queue with a number of workers, each key by one at a time."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        sources: Sequence[Source[Any]],
        *,
        workers: int = WORKERS,
        deadline: float = DEADLINE_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
        metrics: Metrics | None = None,
    ) -> None:
        self.name = name
        self.queue = Queue(clock=clock)
        self._reconcile = reconcile
        self._sources = sources
        self._workers = workers
        self._deadline = deadline
        self._clock = clock
        self._metrics = metrics
        self._log = structlog.get_logger("controller").bind(controller=name)
        for source in sources:
            source.feed(self._changed)
        self.running = False
        """True from the start of `run` until its last worker has ended."""
        self._stopped = asyncio.Event()

    def resync(self) -> None:
        """Reconciles all objects again."""
        for source in self._sources:
            if source.is_primary:
                for obj in source.store:
                    self.queue.add(obj.metadata.key)

    async def run(self, permitted: Callable[[], bool] = lambda: True) -> None:
        """Works until `stop`. Begins with every object there is, because earlier changes are unknown.

        `permitted` is asked before each reconcile: a leader that was frozen must not begin one when it wakes. While
        `permitted` returns False, keys stay in the queue and workers wait.
        """
        self.queue = Queue(clock=self._clock)
        self._stopped.clear()
        self.running = True
        self.resync()
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._workers):
                    workers.create_task(self._work(permitted))
        finally:
            self.running = False

    def stop(self) -> None:
        """No new reconcile begins; `run` returns when those that run have ended."""
        self.queue.close()
        self._stopped.set()

    def _changed(self, key: Key, urgent: int) -> None:
        # A standby keeps its caches warm and its queue empty: `run` begins with everything anyway.
        if self.running:
            self.queue.add(key, urgent=urgent)

    async def _work(self, permitted: Callable[[], bool]) -> None:
        while (key := await self.queue.get()) is not None:
            if not permitted():
                self.queue.add(key, urgent=True)
                self.queue.done(key)
                await self._doubt()
                continue
            began = self._clock.monotonic()
            try:
                outcome = await self._once(key)
            finally:
                self.queue.done(key)
            if self._metrics is not None:
                self._metrics.reconciled(self.name, outcome, self._clock.monotonic() - began, len(self.queue))

    async def _doubt(self) -> None:
        """Waits DOUBT_SECONDS before `permitted` is asked again; less when `stop` is called."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DOUBT_SECONDS):
                await self._stopped.wait()

    async def _once(self, key: Key) -> str:
        """One reconcile and what its end means for the queue; the answer names that end for the metrics."""
        log = self._log.bind(key=str(key))
        try:
            async with asyncio.timeout(self._deadline):
                result = await self._reconcile(key)
        except Terminal as error:
            self.queue.forget(key)
            log.warning("terminal: waiting for the object to change", problem=str(error))
            return "terminal"
        except RetryAfter as error:
            self.queue.forget(key)
            self.queue.add_after(key, error.seconds)
            log.info("waiting", problem=str(error), seconds=error.seconds)
            return "waiting"
        except Conflict as error:
            # The cache was out of date. The newer version will arrive and add the key again in any case.
            self.queue.retry(key)
            log.debug("conflict", problem=str(error))
            return "conflict"
        except KubeError as error:
            self.queue.retry(key, at_least=(error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0)
            log.warning("failed; retrying", problem=str(error))
            return "error"
        except TimeoutError:
            self.queue.retry(key)
            log.warning("reconcile took too long and was stopped; retrying", seconds=self._deadline)
            return "timeout"
        except (Exception, asyncio.CancelledError):
            if (worker := asyncio.current_task()) is not None and worker.cancelling():
                raise
            # A defect in our code: one object must not stop the others, and the trace must not be lost. So is a
            # CancelledError when nobody cancelled this worker: it would end the worker silently.
            self.queue.retry(key)
            log.exception("reconcile failed unexpectedly; retrying")
            return "defect"
        self.queue.forget(key)
        if result.requeue_after is not None:
            self.queue.add_after(key, result.requeue_after)
        return "done"
