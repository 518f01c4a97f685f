"""A child that does nothing but live."""

from __future__ import annotations

import asyncio

from gpu_runtime.supervisor import child


async def main() -> None:
    child.ALIVE_SECONDS = 0.05
    await child.wait_for_begin()
    print(child.READY, flush=True)  # noqa: T201  the parent reads it
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
