"""All programs of one data directory, from the first start to the last stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from gpu_runtime.supervisor.events import Ended, Event
from gpu_runtime.supervisor.folder import Folder, Record
from gpu_runtime.supervisor.process import Process
from gpu_runtime.supervisor.program import Program, levels
from gpu_runtime.supervisor.watcher import Patience, Watcher


class Supervisor:
    """Starts programs in dependency order, keeps them running, and stops them in reverse order."""

    def __init__(
        self,
        folder: Folder,
        programs: Sequence[Program],
        report: Callable[[Event], None],
        patience: Patience | None = None,
    ) -> None:
        self._folder = folder
        self._levels = levels(programs)
        self._report = report
        self._patience = patience or Patience()
        self._watchers: dict[str, Watcher] = {}

    async def run(self, stop: asyncio.Event, *, all_ready: Callable[[], None] = lambda: None) -> None:
        """Runs until `stop` is set. Raises StartFailed when a program cannot start. No process remains."""
        self._watchers = {
            program.name: Watcher(program, order, self._folder, self._report, self._patience)
            for order, level in enumerate(self._levels)
            for program in level
        }
        try:
            await _until(stop, self._work(all_ready))
        finally:
            # Shielded: a cancelled `_stop` would leave processes running.
            await asyncio.shield(self._stop())

    def hurry(self) -> None:
        """Kills all processes that still run. Called on the second signal."""
        for watcher in self._watchers.values():
            watcher.kill()

    async def _work(self, all_ready: Callable[[], None]) -> None:
        programs = [program for level in self._levels for program in level]
        leftovers = await end_leftovers(self._folder, self._report, keep=programs)
        started = {program.name: asyncio.Event() for program in programs}
        try:
            async with asyncio.TaskGroup() as group:
                for name, watcher in self._watchers.items():
                    group.create_task(self._start(watcher, leftovers.get(name), started))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # one failure has cancelled all other starts
        all_ready()
        async with asyncio.TaskGroup() as group:
            for watcher in self._watchers.values():
                group.create_task(watcher.keep())

    async def _start(self, watcher: Watcher, leftover: Record | None, started: dict[str, asyncio.Event]) -> None:
        for name in watcher.program.after:
            await started[name].wait()
        await watcher.start(leftover, serving=started[watcher.program.name])

    async def _stop(self) -> None:
        for level in reversed(self._levels):
            await asyncio.gather(*(self._watchers[program.name].stop() for program in level))
        await end_leftovers(self._folder, self._report)  # leftovers that were adoptable but not adopted yet


async def end_leftovers(
    folder: Folder, report: Callable[[Event], None], keep: Sequence[Program] = ()
) -> dict[str, Record]:
    """Ends the processes that an earlier supervisor left, last started first. Returns those that can be adopted."""
    wanted = {program.name: program.digest() for program in keep}
    adoptable: dict[str, Record] = {}
    for record in reversed(folder.records()):
        process = Process.adopt(record.identity)
        if process is None:
            folder.forget(record.name)
        elif wanted.get(record.name) == record.digest:
            process.release()
            adoptable[record.name] = record
        else:
            began = time.monotonic()
            clean = await process.stop(record.stop_seconds)
            folder.forget(record.name)
            report(Ended(record.name, time.monotonic() - began, killed=not clean, leftover=True))
    return adoptable


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Awaits `work`, or cancels it when `stop` is set."""
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        for each in (task, stopping):
            each.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)
