"""Runs a part of the cluster as a child process: tells it when to begin, restarts it, never leaves it orphaned."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from gpu_runtime.kube.backoff import Exponential
from gpu_runtime.supervisor.process import ending

BEGIN = b"begin\n"
READY = "ready"
ALIVE = "alive"
ALIVE_SECONDS = 5.0
"""How often a child prints ALIVE."""
SILENT_SECONDS = 30.0
"""A child that prints nothing for this long hangs, and the parent kills it."""
LISTENS = 3
"""The parent measures the silence in this many waits. If the parent itself was stopped (SIGSTOP), its current wait may
time out at once; the next wait reads what the child has printed meanwhile."""
RESTARTS = Exponential(0.1, 10.0)


class Child:
    """One child process that runs a Python module. The child exits when its standard input closes."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        say: Callable[[str], None],
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self.name = name
        self.ready = asyncio.Event()
        self.starts = 1
        self._command = (sys.executable, "-m", module, *arguments)
        self._say = say
        self._silent_seconds = silent_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._begin = asyncio.Event()
        self._state = "starting"
        self._log = structlog.get_logger("cluster").bind(process=name)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def problem(self) -> str | None:
        """Why the child is not ready; None when it is ready."""
        return None if self.ready.is_set() else self._state

    def begin(self) -> None:
        """Lets the child work: its dependencies are available. Before this call the child only loads its code."""
        self._begin.set()

    async def run(self) -> None:
        """Keeps the child running until `stop`."""
        failures = 0
        while not self._stopping.is_set():
            code = await self._once()
            if self._stopping.is_set():
                return
            failures = 0 if self.ready.is_set() else failures + 1  # it was ready, so a restart is likely to work
            self._not_ready(f"{ending(code)}; being started again")
            self.starts += 1
            wait = RESTARTS.after(failures)
            self._log.warning("died; starting it again", how=ending(code), seconds=wait)
            await asyncio.sleep(wait)

    def _not_ready(self, state: str) -> None:
        self._state = state
        self.ready.clear()

    async def _once(self) -> int:
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches only the parent, which stops its children in order
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            await self._begin.wait()
            process.stdin.write(BEGIN)
            line = await process.stdout.readline()  # no timeout: loading may take long
            while line:
                text = line.decode(errors="replace").rstrip()
                if text == READY:
                    self.ready.set()
                elif text != ALIVE and self.starts == 1:
                    self._say(text)  # every start prints the same lines: show them once
                line = await self._next_line(process.stdout)
            return await process.wait()
        except TimeoutError:
            self._log.warning("hangs and is killed", seconds=self._silent_seconds)
            process.kill()
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _next_line(self, output: asyncio.StreamReader) -> bytes:
        """The next line of the child. Raises TimeoutError when the child prints nothing for `silent_seconds`."""
        for _ in range(LISTENS - 1):
            with suppress(TimeoutError):
                async with asyncio.timeout(self._silent_seconds / LISTENS):
                    return await output.readline()
        async with asyncio.timeout(self._silent_seconds / LISTENS):
            return await output.readline()

    async def stop(self, seconds: float) -> None:
        """Sends SIGTERM, and SIGKILL if the child has not ended after `seconds`."""
        self._stopping.set()
        self._not_ready("stopping")
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            self._log.warning("did not end in time and was killed", seconds=seconds)
            process.kill()
            await process.wait()


async def wait_for_begin() -> None:
    """Called by the child: waits for BEGIN, then prints ALIVE regularly. The child exits when its parent dies."""
    loop = asyncio.get_running_loop()
    begin: asyncio.Future[None] = loop.create_future()

    def on_input() -> None:
        if not os.read(0, 64):
            os._exit(1)  # the parent died: the next parent starts a new child, and two must not run at once
        if not begin.done():
            begin.set_result(None)

    def live() -> None:
        print(ALIVE, flush=True)  # noqa: T201  the parent reads it
        loop.call_later(ALIVE_SECONDS, live)

    loop.add_reader(0, on_input)
    await begin
    live()
