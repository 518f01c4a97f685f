"""A worker does all of its work with the credentials of its own function."""

from __future__ import annotations

from pathlib import Path

from equipment.nats_credentials import running_secured_nats
from equipment.waiting import eventually
from equipment.workers import ECHO, OddFramework, Queue, running_worker
from gpu_runtime.serverless import subjects


async def test_the_credentials_of_a_function_are_enough_for_its_worker(tmp_path: Path, framework: OddFramework) -> None:
    async with (
        running_secured_nats(tmp_path) as nats,
        nats.role("runtime-api") as api,
        nats.role("activator") as activator,
        running_worker(nats.worker_settings(ECHO), framework.socket, heartbeatSeconds=0.2),
    ):
        queue, theirs = Queue(api), Queue(activator)
        await theirs.create_consumers()
        heard, pieces = await theirs.heartbeats(), []

        async def hear(message: object) -> None:
            pieces.append(message)

        await api.nats.subscribe(subjects.output(subjects.Run(ECHO, "large", 1)), cb=hear)
        text = "y" * 700_000
        large = await queue.wait_for_end(await queue.submit("large", {"text": text}, priority="high"))
        assert (await queue.body_of(large))["payload"] == {"text": text}
        await eventually(lambda: pieces, what="the run is announced")

        retried = await queue.wait_for_end(await queue.submit("retried", {"do": "fail-first", "times": 1}))
        assert (retried.state, retried.attempts) == ("succeeded", 2)

        run = await queue.submit("cancelled", {"do": "sleep"})
        await eventually(lambda: framework.calls("cancelled"), what="the call")
        assert await queue.cancel(run)
        await eventually(lambda: framework.closed() == ["cancelled"], what="the run is stopped")

        await theirs.drain("fn-echo-0")
        await eventually(lambda: heard.latest.state == "draining", what="it drains")
