"""A preStop hook runs once for each run of a container."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpu_runtime.local.kinds.container import Container, Handler, HttpGet, Lifecycle
from gpu_runtime.local.kinds.pods import Pod, PodMeta, PodSpec
from gpu_runtime.local.node.agent.hooks import Hooks
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.specs import ContainerRun

NO_ISOLATION = Capabilities(namespaces=0, root="machine", scratch="disk", network="machine", notes=[])


async def test_a_sync_between_the_end_of_the_hook_and_the_end_of_the_program_does_not_run_the_hook_again(
    tmp_path: Path,
) -> None:
    requests: list[str] = []

    async def hook(request: web.Request) -> web.Response:
        requests.append(request.path)
        return web.Response()

    application = web.Application()
    application.router.add_get("/{attempt}", hook)
    async with TestServer(application) as server, aiohttp.ClientSession() as session:

        async def sync(attempt: int) -> None:
            """Asks the run to stop. Returns when its hook has ended and the program has been asked to stop."""
            get = HttpGet(port=server.port or 0, host=server.host, path=f"/{attempt}")
            main = Container(name="main", lifecycle=Lifecycle(preStop=Handler(httpGet=get)))
            pod = Pod(metadata=PodMeta(name="p", namespace="n", uid="u"), spec=PodSpec(containers=[main]))
            async with asyncio.TaskGroup() as hooks.tasks:
                await hooks.stop(pod, main, ContainerRun(name="main", attempt=attempt), grace=30.0)

        hooks = Hooks(PodRuntime(tmp_path, NO_ISOLATION), session, asyncio.TaskGroup(), lambda *_: None)
        await sync(0)
        assert requests == ["/0"]
        await sync(0)
        assert requests == ["/0"]
        await sync(1)  # the container's next run has its own hook
        assert requests == ["/0", "/1"]
