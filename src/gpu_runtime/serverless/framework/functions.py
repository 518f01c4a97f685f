"""The `@function` decorator: how the user's function is called, by its kind."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, overload

from gpu_runtime.serverless.framework.calls import Call

if TYPE_CHECKING:
    from gpu_runtime.serverless.framework.batches import Batches
    from gpu_runtime.serverless.framework.threads import Threads

Handler = Callable[..., Any]

decorated: list[Function] = []
"""Every function that `@function` was applied to, in order: `run()` without an argument takes the last one."""


class Function:
    """A user's function and how it wants to be called. It can still be called directly, such as by a test."""

    def __init__(self, handler: Handler, *, batch: int = 1, wait_ms: float = 10) -> None:
        self.handler = handler
        self.name: str = getattr(handler, "__name__", type(handler).__name__)
        self.batch, self.wait_seconds = batch, wait_ms / 1000
        self.is_async = inspect.iscoroutinefunction(handler)
        self.streams = inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler)
        self.wants_call = _takes_two(handler)
        self._batches: Batches | None = None
        if batch < 1:
            raise ValueError(f"{self.name}: batch must be at least 1")
        if batch > 1 and self.streams:
            raise TypeError(f"{self.name}: a generator cannot be called with batches")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.handler(*arguments, **named)

    async def result(self, call: Call, threads: Threads) -> Any:
        """What the function returns for the call. Not for generators."""
        if self.batch > 1:
            return await self._in_batches(threads).result(call)
        return await self.invoke(threads, call.payload, call)

    async def invoke(self, threads: Threads, payload: Any, call: Call | list[Call]) -> Any:
        """Calls the user's function: async ones in the event loop, all others in a thread."""
        arguments = (payload, call) if self.wants_call else (payload,)
        if self.is_async:
            return await self.handler(*arguments)
        return await threads.run(self.handler, *arguments)

    async def stream(self, call: Call, threads: Threads, returned: list[Any]) -> AsyncIterator[Any]:
        """What a generator yields. Its return value is added to `returned`."""
        arguments = (call.payload, call) if self.wants_call else (call.payload,)
        if inspect.isasyncgenfunction(self.handler):
            items = self.handler(*arguments)
            try:
                async for item in items:
                    yield item
            finally:
                await items.aclose()
            return
        generator = self.handler(*arguments)
        try:
            while True:
                item, done = await threads.run(_next, generator)
                if done:
                    returned.append(item)
                    return
                yield item
        finally:
            # A generator that runs in its thread at this moment cannot be closed. It ends with that thread's step.
            with suppress(ValueError):
                generator.close()

    def _in_batches(self, threads: Threads) -> Batches:
        if self._batches is None:
            from gpu_runtime.serverless.framework.batches import Batches  # noqa: PLC0415  most functions need none

            self._batches = Batches(self, threads)
        return self._batches


@overload
def function(handler: Handler, /) -> Function: ...
@overload
def function(*, batch: int = ..., wait_ms: float = ...) -> Callable[[Handler], Function]: ...
def function(
    handler: Handler | None = None, /, *, batch: int = 1, wait_ms: float = 10
) -> Function | Callable[[Handler], Function]:
    """Marks the function that invocations call: `@function`, or `@function(batch=8, wait_ms=10)`.

    With a batch the function gets a list of payloads, collected for up to `wait_ms`, and returns a list of as many
    results. An exception object in that list is the failure of one call.
    """

    def mark(marked: Handler) -> Function:
        made = Function(marked, batch=batch, wait_ms=wait_ms)
        decorated.append(made)
        return made

    return mark if handler is None else mark(handler)


def _next(generator: Any) -> tuple[Any, bool]:
    """The next item, or the return value and True. StopIteration itself cannot pass through a future."""
    try:
        return next(generator), False
    except StopIteration as end:
        return end.value, True


def _takes_two(handler: Handler) -> bool:
    """Whether the function has a second parameter that can be given by position."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # some functions written in C
        return False
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(by_position) > 1 and by_position[1].default is inspect.Parameter.empty
