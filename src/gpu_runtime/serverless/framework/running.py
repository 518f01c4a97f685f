"""Serves one function on the unix socket until SIGTERM."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_runtime.serverless.framework.functions import Function, decorated

if TYPE_CHECKING:
    import socket

SOCKET_VARIABLE = "GPU_RUNTIME_FRAMEWORK_SOCKET"
DEFAULT_SOCKET = "/tmp/serverless-framework/framework.sock"  # noqa: S108  the folder that worker and framework share


def run(function: Callable[..., Any] | None = None, *, socket_path: str | None = None) -> None:
    """Serves the function, or the one that `@function` marked. Returns after SIGTERM, when all calls have ended."""
    import asyncio  # noqa: PLC0415  a program that only imports the decorator loads faster

    chosen = _chosen(function)
    for stream in (sys.stdout, sys.stderr):  # what the function prints must reach the log at once
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    asyncio.run(_serve(chosen, Path(socket_path or os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET)))


def _chosen(function: Callable[..., Any] | None) -> Function:
    if function is not None:
        return function if isinstance(function, Function) else Function(function)
    if not decorated:
        raise TypeError("run() needs a function: mark one with @function, or pass it to run()")
    return decorated[-1]


async def _serve(function: Function, path: Path) -> None:
    import asyncio  # noqa: PLC0415
    import signal  # noqa: PLC0415

    from gpu_runtime.serverless.framework.http import HEAD_BYTES  # noqa: PLC0415
    from gpu_runtime.serverless.framework.server import Server  # noqa: PLC0415
    from gpu_runtime.serverless.framework.threads import Threads  # noqa: PLC0415

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    threads = Threads()
    server = Server(function, threads)
    listening, mine = listen(path)
    listener = await asyncio.start_unix_server(server.connection, sock=listening, limit=HEAD_BYTES)
    print(f"serving {function.name} on {path}", file=sys.stderr)  # noqa: T201
    await stop.wait()
    remove(path, mine)
    listener.close()
    await server.finish()
    threads.close()


def listen(path: Path) -> tuple[socket.socket, int]:
    """Listens on the path, which a killed predecessor may have left there; also the inode of the new socket.

    The socket gets its permissions before it gets its name: the worker is another user and may connect at any moment.
    """
    import socket  # noqa: PLC0415

    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(new))
    new.chmod(0o666)
    listening.listen(1024)
    inode = new.stat().st_ino
    new.rename(path)
    return listening, inode


def remove(path: Path, inode: int) -> None:
    """Removes our own socket, not that of a successor."""
    try:
        if path.stat().st_ino == inode:
            path.unlink()
    except FileNotFoundError:
        pass
