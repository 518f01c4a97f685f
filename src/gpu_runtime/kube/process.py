"""The shell of every process: logs, signals, open files, the health port, and exit codes.

`main` is the process itself. It asks its context for what it needs; a Kubernetes client is one of these things.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from gpu_runtime import logs
from gpu_runtime.errors import ConfigError
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.health import Health, serve

EXIT_CONFIG = 2
OPEN_FILES = 1 << 16


@dataclass(frozen=True)
class ProcessContext:
    """What the shell gives to a process."""

    stop: asyncio.Event
    """Set by SIGTERM and SIGINT: `main` ends its work in order and returns."""
    health: Health = field(default_factory=Health)
    """The process adds its checks here; it is not ready before that."""
    user_agent: str = "gpu-runtime"
    kubeconfig: Path | None = None

    @asynccontextmanager
    async def kubernetes(self) -> AsyncIterator[Client]:
        """A client of the cluster that `--kubeconfig` or the environment names; ConfigError when there is none."""
        async with Client(load_config(self.kubeconfig), user_agent=self.user_agent) as client:
            yield client


Main = Callable[[ProcessContext], Awaitable[None]]


def run_process(
    main: Main,
    *,
    user_agent: str = "gpu-runtime",
    log_level: str = "info",
    health: tuple[str, int] | None = None,
    kubeconfig: Path | None = None,
) -> int:
    """Runs `main` until it returns, which it does soon after a signal; the exit code.

    A ConfigError is one line a problem and exit code 2. Any other error is a defect and is raised with its trace.
    """
    logs.configure(log_level)
    raise_open_files_limit()
    try:
        uvloop.run(_run(main, user_agent, health, kubeconfig))
    except (ConfigError, ExceptionGroup) as error:
        cause = _unwrapped(error)
        if not isinstance(cause, ConfigError):
            raise
        print(f"Error: {cause}", file=sys.stderr)  # noqa: T201  for the person who started it
        return EXIT_CONFIG
    return 0


async def _run(main: Main, user_agent: str, health: tuple[str, int] | None, kubeconfig: Path | None) -> None:
    with stop_on_signal() as stop:
        context = ProcessContext(stop, Health(stop.is_set), user_agent, kubeconfig)
        async with AsyncExitStack() as stack:
            if health is not None:
                await stack.enter_async_context(serve(context.health, *health))
            await main(context)


@contextmanager
def stop_on_signal() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set, so that work can end in order."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for each in signals:
        loop.add_signal_handler(each, stop.set)
    try:
        yield stop
    finally:
        for each in signals:
            loop.remove_signal_handler(each)


def raise_open_files_limit() -> int:
    """Raises the process's limit of open files as far as it may; returns how many files it can then open.

    The usual soft limit is 1024. A process that reaches it refuses connections, which looks like a dead server.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft == resource.RLIM_INFINITY:
        return most
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(soft, most)


def _unwrapped(error: Exception) -> Exception:
    """The one error in groups of one: a task group wraps what its body raises."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
