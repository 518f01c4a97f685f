"""One pod of the runtime: its record, the connection to its shim, and the states of its containers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable

import msgspec

from gpu_runtime.local.node.records import PodFiles, PodRecord
from gpu_runtime.local.node.shim.shapes import ContainerState
from gpu_runtime.local.node.shim_client import ShimClient, ShimGone
from gpu_runtime.local.node.specs import ContainerRun, PodSandbox

CONNECT_DEADLINE = 10.0
QUIT_DEADLINE = 10.0
LOST_EXIT_CODE = 255


class Pod:
    """The current state of a pod. Calls `changed()` after each change."""

    def __init__(self, files: PodFiles, record: PodRecord, changed: Callable[[], None]) -> None:
        self.files, self.record, self._changed = files, record, changed
        self.client: ShimClient | None = None
        self.states = {(run.name, run.attempt): run.state for run in files.runs()}
        self._waiters: set[asyncio.Future[None]] = set()
        self.gone = asyncio.Event()

    @property
    def alive(self) -> bool:
        return self.client is not None and self.record.phase == "ready" and not self.gone.is_set()

    def observed(self) -> PodSandbox:
        runs = [ContainerRun(name=name, attempt=attempt, state=state) for (name, attempt), state in self.states.items()]
        return PodSandbox(
            spec=self.record.spec,
            alive=self.alive,
            createdAt=self.record.createdAt,
            address=self.record.address,
            gpus=self.record.gpus,
            runs=runs,
        )

    def update(self, **changes: object) -> None:
        """Changes the record on disk first, then in memory."""
        record = msgspec.structs.replace(self.record, **changes)
        self.files.write(record)
        self.record = record

    async def connect(self) -> bool:
        """Reaches the pod's shim; False when there is none. One that does not answer is ended."""
        deadline = time.monotonic() + CONNECT_DEADLINE
        while (lock := self.files.lock()) is None:
            # ShimGone: an earlier agent has told it to quit, and it was about to.
            with contextlib.suppress(OSError, ShimGone):
                self.gone.clear()
                self.client = await ShimClient.connect(self.files.path, self._state_changed, self._lost)
                listed = await self.client.ask("list")
                self.states.update({(name, attempt): state for name, attempt, state in listed.runs})
                return True
            self.client = None
            if time.monotonic() > deadline:
                self._kill_shim()
            await asyncio.sleep(0.01)
        os.close(lock)
        return False

    def _kill_shim(self) -> None:
        """Kills the shim by its identity: the pid of a shim that has ended may belong to another process by now."""
        shim = self.files.shim()
        handle = shim.open() if shim else None
        if handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)

    def _state_changed(self, container: str, attempt: int, state: ContainerState) -> None:
        self.states[(container, attempt)] = state
        self._notify()

    def _lost(self) -> None:
        self.gone.set()
        self._notify()

    def _notify(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._changed()

    async def wait(self, container: str, attempt: int, *, ended: bool) -> ContainerState:
        """The state of a run once it has one (`ended`: once it has ended)."""
        while True:
            state = self.states.get((container, attempt))
            if state is not None and (state["status"] == "exited" or not ended):
                return state
            if self.gone.is_set():
                raise ShimGone
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            await waiter

    def write_off(self) -> None:
        """Call it after the pod's processes have gone: a run without a recorded end gets an unknown one."""
        now = time.time()
        for run in self.files.runs():
            state = run.state
            if state is None or state["status"] != "exited":
                state = {
                    "status": "exited",
                    "startedAt": state["startedAt"] if state else 0.0,
                    "finishedAt": now,
                    "exitCode": LOST_EXIT_CODE,
                    "signal": 0,
                    "reason": "Unknown",
                    "message": "the pod's sandbox ended and with it this container",
                }
                self.files.write_state(run.name, run.attempt, state)
            self.states[(run.name, run.attempt)] = state

    async def quit(self) -> None:
        """Ends the shim and with it every container, and waits until nothing of them is left."""
        if self.client is not None and not self.gone.is_set():
            with contextlib.suppress(ShimGone):
                await self.client.ask("quit")
        deadline, wait = time.monotonic() + QUIT_DEADLINE, 0.002
        while (lock := self.files.lock()) is None:
            if time.monotonic() > deadline:
                self._kill_shim()
                wait = min(
                    wait * 2, 1.0
                )  # a process that waits for a hanging disk cannot be killed until the disk answers
            await asyncio.sleep(wait)
        os.close(lock)
