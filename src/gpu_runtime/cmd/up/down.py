"""`gpu-runtime down`: stops all processes of a data directory, also those that a killed supervisor left."""

from __future__ import annotations

import asyncio

from gpu_runtime.cmd.up import console
from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.supervisor.holder import Held, Holder, hold, holder
from gpu_runtime.supervisor.process import Process
from gpu_runtime.supervisor.supervisor import end_leftovers

STOP_SECONDS = 180.0  # for all processes together; each one also has its own limit
POD_GRACE_SECONDS = 5.0
EXIT_FAILED = 1


def down(layout: Layout) -> int:
    """Stops everything, then returns the exit code: 1 when `up` had to be killed or the directory cannot be used."""
    if not layout.supervised.lock.exists():
        console.say(f"nothing runs on {layout.root}")
        return 0
    return asyncio.run(_end(layout))


async def _end(layout: Layout) -> int:
    running = holder(layout.supervised.lock)
    clean = await _end_supervisor(running) if running is not None else True
    try:
        with hold(layout.supervised.lock):
            left = layout.supervised.records()
            await end_leftovers(layout.supervised, console.print_event)
            pods = await _end_pods(layout)
    except Held as held:
        console.complain(f"{layout.root} is in use by `gpu-runtime up`: {held}")
        return EXIT_FAILED
    except OSError as error:
        console.complain(f"{layout.root} cannot be used: {error.strerror}")
        return EXIT_FAILED
    if running is None and not left and not pods:
        console.say(f"nothing runs on {layout.root}")
    return 0 if clean and pods is not None else EXIT_FAILED


async def _end_pods(layout: Layout) -> int | None:
    """Stops the pods that a killed cluster left running. Returns their number; None when another process uses them."""
    from gpu_runtime.local.cluster.cluster import LOCK  # noqa: PLC0415  slow import: loads the API server
    from gpu_runtime.local.node.leftovers import end_pods  # noqa: PLC0415
    from gpu_runtime.local.node.runtime import AlreadyRunning  # noqa: PLC0415

    try:
        with hold(layout.root / LOCK):
            pods = await end_pods(layout.root, POD_GRACE_SECONDS)
    except Held as held:
        console.complain(f"a cluster that `gpu-runtime up` did not start runs on {layout.root}: {held}")
        return None
    except AlreadyRunning as still:
        console.complain(str(still))
        return None
    if pods:
        console.say(f"  - {pods} pods left behind stopped")
    return pods


async def _end_supervisor(running: Holder) -> bool:
    process = Process.adopt(running.identity)
    if process is None or await process.stop(STOP_SECONDS):
        console.say(f"  - gpu-runtime up (process {running.identity.pid}) stopped")
        return True
    console.complain(f"gpu-runtime up (process {running.identity.pid}) did not end in time and was killed")
    return False
