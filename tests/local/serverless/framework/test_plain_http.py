"""The contract is open: a framework in another language, without any library of ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from equipment.nats import running_nats
from equipment.workers import Queue, running_framework, running_worker


@pytest.mark.skipif(shutil.which("perl") is None, reason="perl is not installed")
async def test_the_example_in_perl_runs_invocations(tmp_path: Path) -> None:
    command = ["perl", "examples/serverless/plain_http/framework.pl"]
    async with running_nats(tmp_path) as server, server.connection() as broker:
        queue = Queue(broker)
        await queue.create_consumers()
        with running_framework(tmp_path, command) as framework:
            async with running_worker(server, framework.socket, concurrency=4):
                good = [await queue.submit(f"good-{n}", {"text": "a b c"}) for n in range(10)]
                bad = await queue.submit("bad", {})
                ends = [await queue.wait_for_end(run) for run in good]
                failed = await queue.wait_for_end(bad)
    assert {end.state for end in ends} == {"succeeded"}
    assert json.loads(ends[0].body.inline()) == {"words": 3}
    assert (failed.state, failed.statusCode, failed.error) == ("failed", 400, "text is missing")
