"""Runs one coroutine on the API in memory to its end, each call as soon as it is asked for."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from unit.service.exploration.memory import Process

R = TypeVar("R")


def finish(work: Awaitable[R]) -> R:
    process = Process("work", lambda: work)
    while not process.done:
        process.step()
    if process.error is not None:
        raise process.error
    result: R = process.result
    return result
