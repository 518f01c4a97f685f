"""A controller process: connect, run, end on a signal, and say in one line why it cannot."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.errors import ConfigError
from gpu_runtime.kube.manager import Manager

EXIT_CONFIG = 2
OPEN_FILES = 1 << 16


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


def run_manager(build: Callable[[Client], Manager], kubeconfig: Path | None = None) -> int:
    """Runs what `build` makes until a signal; the exit code."""

    async def main() -> None:
        async with Client(load_config(kubeconfig)) as client:
            with stop_on_signal() as stop:
                await build(client).run(stop)

    raise_open_files_limit()
    try:
        asyncio.run(main())
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  before there is anything to log to
        return EXIT_CONFIG
    return 0
