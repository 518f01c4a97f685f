"""Asking a process whether it is ready."""

from __future__ import annotations

import aiohttp
import msgspec

TIMEOUT_SECONDS = 2.0


class _Answer(msgspec.Struct):
    problems: dict[str, str] = {}


class Prober:
    """Asks readiness URLs of this machine; an async context manager that owns its connections."""

    async def __aenter__(self) -> Prober:
        # A readiness answer over TLS of our own making is not worth a CA: nothing secret is sent, nothing is trusted.
        connector = aiohttp.TCPConnector(ssl=False, force_close=True)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS), trust_env=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def problem(self, url: str) -> str | None:
        """None when the process at `url` is ready, else what it says is missing, or that it does not answer."""
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                body = await response.read()
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            return "does not answer"
        return None if status == 200 else _missing(status, body)


def _missing(status: int, body: bytes) -> str:
    try:
        problems = msgspec.json.decode(body, type=_Answer).problems
    except msgspec.DecodeError:
        problems = {}
    return "; ".join(f"{name}: {problem}" for name, problem in problems.items()) or f"answers {status}"
