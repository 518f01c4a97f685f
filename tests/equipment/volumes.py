"""Claims that are bound and grow, on an API server without a node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from equipment.servers import ApiServer
from gpu_runtime.kube import Client, Manager, Recorder
from gpu_runtime.local.controllers.volumes.binder import Binder
from realkube.provisioner import provision


@asynccontextmanager
async def provisioning(server: ApiServer, client: Client, folder: Path) -> AsyncIterator[None]:
    """Runs the provisioner inside the block, and the binder where the server has none of its own."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(provision(client, folder, stop))
        if server.kind == "embedded":
            recorder = Recorder(client, "binder", "test")
            manager = Manager(client, recorder=recorder)
            Binder(manager, recorder)
            group.create_task(manager.run(stop))
        try:
            yield
        finally:
            stop.set()
