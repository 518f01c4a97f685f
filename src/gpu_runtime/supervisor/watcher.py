"""Keeps one program running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from gpu_runtime.kube.backoff import Exponential
from gpu_runtime.supervisor.events import Died, Ended, Event, Ready, StartFailed, Unready
from gpu_runtime.supervisor.folder import Folder, Record
from gpu_runtime.supervisor.listening import listens
from gpu_runtime.supervisor.probe import SILENT, answers, problem
from gpu_runtime.supervisor.process import Process
from gpu_runtime.supervisor.program import Program

POLL_SECONDS = 0.03
POLL_SHARE = 0.05  # of the time waited so far: a start of a minute does not cost 2000 probes
ASKED_IN_SILENCE = 6  # probes of a silent process before it counts as hung
ASKED_WHILE_UNREADY = 6  # probes of a process that is not ready before it is restarted
EXIT_MISUSE = 2  # a process exits so when its settings or arguments are wrong: a restart cannot help
LARGEST_LOG = 32 * 1024 * 1024
TAIL_LINES = 8
TAIL_BYTES = 16 * 1024


@dataclass(frozen=True)
class Patience:
    """How long things may take, and when to give up."""

    ready_seconds: float = 60.0
    """A first start that takes longer has failed."""
    first_attempts: int = 3
    """The first start has failed when the process ends this many times before it is ready."""
    settled_seconds: float = 10.0
    """Back-off starts from its shortest delay again after the process was ready for this long."""
    silent_seconds: float = 30.0
    """A process that runs but answers no request for this long hangs, and the watcher kills it."""
    backoff: Exponential = field(default_factory=lambda: Exponential(0.2, 15.0))


class Watcher:
    """Starts the program, or adopts the process of an earlier supervisor, and restarts it whenever it ends."""

    def __init__(
        self,
        program: Program,
        order: int,
        folder: Folder,
        report: Callable[[Event], None],
        patience: Patience,
    ) -> None:
        self.program = program
        self._order = order
        self._folder = folder
        self._report = report
        self._patience = patience
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._port = urlsplit(program.health).port or 0
        self._restarts = 0
        self._failures = 0
        self._log_began = 0

    async def start(self, leftover: Record | None, serving: asyncio.Event) -> None:
        """Returns when the process is ready for the first time. Raises StartFailed when it cannot become ready.

        Sets `serving` earlier: as soon as the process serves and `program.prepare` is done.
        """
        adopted = self._adopt(leftover)
        for attempt in range(1, self._patience.first_attempts + 1):
            if self._process is None or self._process.ended.is_set():
                await self._launch()
            began = time.monotonic()
            deadline = began + self._patience.ready_seconds
            missing = await self._until_well(self.program.serves or self.program.health, deadline)
            if missing is None and not serving.is_set():
                if self.program.prepare is not None:
                    await self.program.prepare()
                serving.set()
            if missing is None and self.program.serves:
                missing = await self._until_well(self.program.health, deadline)
            if missing is None:
                self._report(Ready(self.program.name, time.monotonic() - began, self.program.address, adopted))
                return
            process = self._running()
            if self._stopping.is_set():
                return
            if not process.ended.is_set():
                raise self._failure(f"not ready after {self._patience.ready_seconds:g} s: {missing}")
            if process.code == EXIT_MISUSE:
                break
            if attempt < self._patience.first_attempts:
                await self._pause(process.how)
        raise self._failure(self._running().how)

    async def keep(self) -> None:
        """Runs until `stop`: restarts the process whenever it ends or hangs, or is not ready for too long."""
        while not self._stopping.is_set():
            ready_since = time.monotonic()
            unready = asyncio.ensure_future(self._stop_when_unready())
            try:
                silent = await self._until_ended_or_hung()
            finally:
                unready.cancel()
            if self._stopping.is_set():
                return
            if time.monotonic() - ready_since >= self._patience.settled_seconds:
                self._failures = 0
            await self._again(silent)

    async def stop(self) -> None:
        """Stops the process and does not restart it."""
        self._stopping.set()
        if self._process is None:
            return
        began = time.monotonic()
        clean = await self._process.stop(self.program.stop_seconds)
        self._folder.forget(self.program.name)
        self._report(Ended(self.program.name, time.monotonic() - began, killed=not clean))

    def kill(self) -> None:
        """Kills the process at once, without SIGTERM."""
        if self._process is not None:
            self._process.kill()

    async def _again(self, silent: float) -> None:
        """Restarts the ended process, with back-off, until it is ready again."""
        how = self._running().how
        while not self._stopping.is_set():
            await self._pause(how, silent)
            if self._stopping.is_set():
                return
            self._restarts += 1
            try:
                await self._launch()
            except StartFailed as failed:
                how, silent = failed.why, 0.0  # keep trying: a full disk may have space later
                continue
            began = time.monotonic()
            hung = asyncio.ensure_future(self._until_ended_or_hung())
            try:
                if await self._until_well(self.program.health) is None:
                    took = time.monotonic() - began
                    self._report(Ready(self.program.name, took, self.program.address, restarts=self._restarts))
                    return
                silent = await hung
                how = self._running().how
            finally:
                hung.cancel()

    async def _pause(self, how: str, silent: float = 0.0) -> None:
        seconds = self._patience.backoff.after(self._failures)
        self._failures += 1
        self._report(Died(self.program.name, how, seconds, silent))
        await asyncio.sleep(seconds)

    async def _until_ended_or_hung(self) -> float:
        """Waits for the end of the process and kills it when it hangs. Returns the seconds it was silent, else 0."""
        process, patience = self._running(), self._patience.silent_seconds
        silent_since: float | None = None
        while not await process.ends_within(patience / ASKED_IN_SILENCE):
            if await answers(self.program.health):
                silent_since = None
                continue
            now = time.monotonic()
            # Count from the end of the first failed probe: time in which the supervisor itself was stopped
            # (SIGSTOP) does not count against the process.
            silent_since = now if silent_since is None else silent_since
            if now - silent_since >= patience and not self._stopping.is_set():
                process.kill()
                await process.ended.wait()
                return now - silent_since
        return 0.0

    async def _stop_when_unready(self) -> None:
        """Stops a process that was ready and reports a problem for `unready_seconds`. Its restart follows."""
        process, patience = self._running(), self.program.unready_seconds
        if patience is None:
            return
        unready_since: float | None = None
        while not await process.ends_within(patience / ASKED_WHILE_UNREADY):
            missing, now = await problem(self.program.health), time.monotonic()
            if missing in (None, SILENT):  # silence has a limit of its own
                unready_since = None
                continue
            unready_since = now if unready_since is None else unready_since
            if now - unready_since >= patience and not self._stopping.is_set():
                self._report(Unready(self.program.name, now - unready_since, str(missing)))
                await process.stop(self.program.stop_seconds)
                return

    def _adopt(self, leftover: Record | None) -> bool:
        if leftover is None:
            return False
        self._process = Process.adopt(leftover.identity)
        self._restarts = leftover.restarts
        return self._process is not None

    async def _launch(self) -> None:
        """Starts the process and writes its record. Raises StartFailed when one of the two fails."""
        log = self._folder.log(self.program.name)
        try:
            self._log_began = rotate(log)
            self._process = process = Process.start(self.program.command, self.program.environment, log)
        except OSError as error:
            raise StartFailed(self.program.name, f"cannot be started: {_problem(error)}") from error
        try:
            self._folder.write(
                Record(
                    name=self.program.name,
                    identity=process.identity,
                    digest=self.program.digest(),
                    since=datetime.now(UTC),
                    restarts=self._restarts,
                    address=self.program.address,
                    health=self.program.health,
                    stop_seconds=self.program.stop_seconds,
                    order=self._order,
                )
            )
        except OSError as error:
            # If this supervisor is killed, the next one finds the process only by its record.
            process.kill()
            await process.ended.wait()
            raise StartFailed(self.program.name, f"cannot be recorded: {_problem(error)}") from error

    async def _until_well(self, url: str, deadline: float | None = None) -> str | None:
        """Waits for status 200 from `url`. Returns None then, or the problem when the process ended or time ran out."""
        process, began = self._running(), time.monotonic()
        while not process.ended.is_set():
            missing = await problem(url)
            if missing is None:
                if listens(process.identity.pid, self._port):
                    return None
                missing = f"another process answers on port {self._port}"
            if deadline is not None and time.monotonic() > deadline:
                return missing
            await process.ends_within(max(POLL_SECONDS, POLL_SHARE * (time.monotonic() - began)))
        return process.how

    def _running(self) -> Process:
        assert self._process is not None, "started before it is watched"
        return self._process

    def _failure(self, why: str) -> StartFailed:
        return StartFailed(self.program.name, why, tail(self._folder.log(self.program.name), self._log_began))


def _problem(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def rotate(log: Path) -> int:
    """Renames a log that is too large. Returns the offset at which new lines begin."""
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        return 0
    if size <= LARGEST_LOG:
        return size
    log.replace(log.with_name(f"{log.name}.1"))
    return 0


def tail(log: Path, began: int) -> tuple[str, ...]:
    """The last lines of the log after offset `began`."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(began, end - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(lines[-TAIL_LINES:])
