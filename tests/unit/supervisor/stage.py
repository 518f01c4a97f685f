"""A data directory with programs on it, and their diary."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from equipment.waiting import eventually
from gpu_runtime.kube.backoff import Exponential
from gpu_runtime.supervisor.events import Event
from gpu_runtime.supervisor.folder import Folder, Record
from gpu_runtime.supervisor.process import Process
from gpu_runtime.supervisor.program import Program
from gpu_runtime.supervisor.supervisor import Supervisor
from gpu_runtime.supervisor.watcher import Patience
from realkube.process import free_ports

SERVER = Path(__file__).with_name("server.py")
QUICK = Patience(ready_seconds=30, first_attempts=2, backoff=Exponential(0.01, 0.05))
SILENT_SECONDS = 1.5


@dataclass
class Stage:
    folder: Folder
    told: list[Event] = field(default_factory=list)
    patience: Patience = QUICK

    def program(self, name: str, *options: str, after: tuple[str, ...] = (), port: int | None = None) -> Program:
        port = port or free_ports(1)[0]
        return Program(
            name=name,
            command=(sys.executable, "-S", "-E", str(SERVER), str(port), str(self.diary_file), name, *options),
            health=f"http://127.0.0.1:{port}/readyz",
            after=after,
            stop_seconds=1 if "stubborn" in options else 30,
        )

    @property
    def diary_file(self) -> Path:
        return self.folder.root / "diary"

    def diary(self, what: str) -> list[str]:
        """Names of those who started or stopped, in order."""
        lines = self.diary_file.read_text().splitlines() if self.diary_file.exists() else []
        return [line.split()[1] for line in lines if line.startswith(what)]

    def record(self, name: str) -> Record:
        return next(record for record in self.folder.records() if record.name == name)

    def supervisor(self, *programs: Program) -> Supervisor:
        return Supervisor(self.folder, programs, self.told.append, self.patience)

    @asynccontextmanager
    async def running(self, *programs: Program) -> AsyncIterator[None]:
        """All programs are ready inside the block; afterwards all are stopped."""
        stop, ready = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.supervisor(*programs).run(stop, all_ready=ready.set))
            await eventually(ready.is_set, what="all programs are ready")
            try:
                yield
            finally:
                stop.set()

    def soon_hears_silence(self) -> Stage:
        """The same with little patience for a process that gives no answer."""
        return replace(self, patience=replace(QUICK, silent_seconds=SILENT_SECONDS))

    async def leave_behind(self, program: Program, digest: str | None = None) -> Record:
        """The process as a supervisor leaves it that was killed."""
        process = Process.start(program.command, {}, self.folder.log(program.name))
        record = Record(
            name=program.name,
            identity=process.identity,
            digest=digest or program.digest(),
            since=datetime.now(UTC),
            stop_seconds=program.stop_seconds,
        )
        self.folder.write(record)
        await eventually(lambda: program.name in self.diary("started"), what=f"{program.name} has started")
        return record

    async def ended(self, record: Record) -> None:
        await eventually(lambda: not record.identity.running(), what=f"{record.name} has ended")

    def kill(self, name: str) -> Record:
        record = self.record(name)
        os.kill(record.identity.pid, signal.SIGKILL)
        return record
