"""The threads that plain functions run in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MOST_THREADS = 1000
"""As many as a worker may send calls at once. A thread starts only when no other one is free."""


class Threads:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="function")

    async def run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, _contained, call, arguments)

    def close(self) -> None:
        """Waits for what runs."""
        self._pool.shutdown()


def _contained(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Exceptions that would end the process, such as SystemExit, end only the call."""
    try:
        return call(*arguments)
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__} was raised: {error}") from error
