"""A POST without a body is not taken from a page of another site: a browser sends it without asking the server."""

from __future__ import annotations

import aiohttp
import pytest

from equipment.mutation import mutant
from gpu_runtime.http.route import Answer, Route
from unit.http.served import answer_at_once, serving

ACT = Route("POST", "/act", "A test's", "test", answer_at_once, (Answer(200, "Fine."),))


async def ask(origin: str | None) -> int:
    async with serving(ACT) as url, aiohttp.ClientSession() as session:
        own = url.removesuffix("/api/v1")
        headers = {"Origin": origin.replace("OWN", own)} if origin is not None else {}
        async with session.post(f"{url}/act", headers=headers) as response:
            return response.status


@pytest.mark.parametrize("origin", [None, "OWN"])
async def test_a_program_and_a_page_of_this_server_may_send_it(origin: str | None) -> None:
    assert await ask(origin) == 200


@pytest.mark.parametrize(
    "origin", ["http://elsewhere.example", "http://127.0.0.1:1", "OWN.elsewhere.example", "null", "", "http://["]
)
@mutant("http/route.py", 'if self.method == "POST":', "if False:")
async def test_a_page_of_another_site_may_not(origin: str) -> None:
    assert await ask(origin) == 403
