from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from gpu_runtime.edge.runner import Runner
from gpu_runtime.errors import ConfigError


@pytest.fixture
async def runner() -> Any:
    nothing: Any = None
    made = Runner(web.Application(), nothing, shutdown_timeout=1)
    await made.setup()
    yield made
    await made.cleanup()


async def test_a_port_that_is_taken_is_one_clear_line(runner: Runner) -> None:
    port = await runner.listen("127.0.0.1", 0)
    with pytest.raises(ConfigError, match=f"^cannot listen on 127.0.0.1:{port}: "):
        await runner.listen("127.0.0.1", port)


async def test_a_host_that_can_be_no_name_is_one_clear_line(runner: Runner) -> None:
    with pytest.raises(ConfigError, match=r"^cannot listen on a\.\.b:0: a\.\.b is not a host name$"):
        await runner.listen("a..b", 0)
