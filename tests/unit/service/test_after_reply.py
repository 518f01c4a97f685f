"""What goes on after the reply: it is tried until it is done, and a process that ends lets it finish."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from gpu_runtime.kube.errors import Unreachable
from gpu_runtime.service.operations.after_reply import AfterReply


async def test_a_caller_does_not_wait_for_it() -> None:
    after_reply, release, done = AfterReply(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await release.wait()
        done.set()

    await after_reply.later(work)
    assert not done.is_set()
    release.set()
    await asyncio.wait_for(done.wait(), 30)


async def test_it_goes_on_when_the_cluster_was_away() -> None:
    after_reply, tries = AfterReply(), list[int]()

    async def work() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise Unreachable("away")

    with capture_logs() as said:
        await after_reply.later(work)
        await after_reply.finish(30)
    assert len(tries) == 3
    assert [entry["problem"] for entry in said] == ["away", "away"]


async def test_what_does_not_end_in_time_is_left_to_others() -> None:
    after_reply, cancelled = AfterReply(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await after_reply.later(work)
    await asyncio.sleep(0)
    await after_reply.finish(0.01)
    assert not cancelled.is_set()
    after_reply.stop()
    await asyncio.wait_for(cancelled.wait(), 30)


async def test_a_fault_of_ours_is_told_and_not_repeated() -> None:
    after_reply, tries = AfterReply(), list[int]()

    async def work() -> None:
        tries.append(1)
        raise ValueError("a fault")

    with capture_logs() as said:
        await after_reply.later(work)
        await after_reply.finish(30)
    assert len(tries) == 1
    assert [entry["log_level"] for entry in said] == ["error"]
