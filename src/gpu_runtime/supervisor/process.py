"""A running process: started by this supervisor, or left running by an earlier one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gpu_runtime.supervisor.identity import Identity

KILL_SECONDS = 10.0


class Process:
    """Notices the end of a process, child or not. Never signals another process that got the same process id."""

    def __init__(self, identity: Identity, handle: int, child: subprocess.Popen[bytes] | None = None) -> None:
        self.identity = identity
        self.ended = asyncio.Event()
        self.how = "ended"
        self.code: int | None = None
        """Exit status, negative for a signal. None while the process runs, and always for a process of an earlier
        supervisor: only the parent gets the status."""
        self._child = child
        self._handle: int | None = handle
        asyncio.get_running_loop().add_reader(handle, self._note_end)

    @classmethod
    def start(cls, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
        """Starts a child in its own session, so that Ctrl-C on the terminal reaches only the supervisor."""
        with log.open("ab") as out:
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        handle = os.pidfd_open(child.pid)  # cannot fail: the kernel keeps the child's id until we wait for the child
        identity = Identity.of(child.pid) or Identity(child.pid, "", "")
        return cls(identity, handle, child)

    @classmethod
    def adopt(cls, identity: Identity) -> Process | None:
        """Takes over a process of an earlier supervisor; None when the process has ended."""
        handle = identity.open()
        return cls(identity, handle) if handle is not None else None

    def signal(self, number: signal.Signals) -> None:
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    async def stop(self, seconds: float) -> bool:
        """Sends SIGTERM and waits, then sends SIGKILL. Returns False when SIGKILL was needed."""
        self.signal(signal.SIGTERM)
        if await self.ends_within(seconds):
            return True
        self.kill()
        await self.ends_within(KILL_SECONDS)
        return False

    def kill(self) -> None:
        """Sends SIGKILL: the process cannot clean up."""
        self.signal(signal.SIGKILL)

    def release(self) -> None:
        """Stops watching the process. The process keeps running."""
        if self._handle is not None:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = None

    async def ends_within(self, seconds: float) -> bool:
        """Waits at most `seconds` for the process to end. Returns whether it ended."""
        try:
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        except TimeoutError:
            return False
        return True

    def _note_end(self) -> None:
        if self._child is not None:
            self.code = self._child.wait()
            self.how = ending(self.code)
        self.release()
        self.ended.set()


def ending(code: int) -> str:
    """An exit status in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
