"""The server's process: one line when it answers, one line when it cannot."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sqlite3
import sys
from pathlib import Path

import uvloop

from gpu_runtime.local.apiserver.errors import StartError
from gpu_runtime.local.apiserver.server import ApiServer, Settings
from gpu_runtime.local.apiserver.store import KEEP_BYTES, KEEP_EVENTS, KEEP_SECONDS
from gpu_runtime.local.node.agent.logs import PodLogs


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu_runtime.local.apiserver", description="A Kubernetes-compatible API server."
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="where objects, keys and the kubeconfig are kept")
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one")
    parser.add_argument(
        "--history-seconds", type=float, default=KEEP_SECONDS, help="how long past versions can be asked for"
    )
    parser.add_argument(
        "--history-events", type=int, default=KEEP_EVENTS, help="how many past versions are kept at most"
    )
    parser.add_argument("--history-bytes", type=int, default=KEEP_BYTES, help="how much memory past versions may take")
    return parser.parse_args(given)


async def serve(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with ApiServer(settings) as server:
        print(f"ready: {server.url} kubeconfig {server.kubeconfig}", flush=True)  # noqa: T201
        await stop.wait()


def main() -> int:
    given = arguments()
    settings = Settings(
        given.data_dir.absolute(),
        PodLogs(given.data_dir.absolute()),
        given.port,
        given.history_seconds,
        given.history_events,
        given.history_bytes,
    )
    try:
        uvloop.run(serve(settings))
    except (StartError, OSError, sqlite3.Error) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
