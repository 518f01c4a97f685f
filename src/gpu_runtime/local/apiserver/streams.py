"""Subresources of pods that need a connection in both directions: exec, attach and portforward."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from aiohttp import web

from gpu_runtime.local.apiserver.calls import Call
from gpu_runtime.local.apiserver.channels import V4, V5, Channels
from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.errors import Status, bad_request, internal, not_found
from gpu_runtime.local.apiserver.forwarding import PROTOCOL, Forwarding
from gpu_runtime.local.apiserver.options import truth
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.shells import CannotStart, NotRunning, Shell, ShellRequest, ShellSource
from gpu_runtime.local.apiserver.subresources import container_of

Opener = Callable[[ShellSource, Object, ShellRequest], Awaitable[Shell]]


async def execute(cluster: Cluster, call: Call) -> web.StreamResponse:
    """Runs a command in a container of a pod."""
    return await _shell(cluster, call, _execute)


async def attach(cluster: Cluster, call: Call) -> web.StreamResponse:
    """Streams the output of the container's program from now on."""
    return await _shell(cluster, call, _attach)


async def _attach(source: ShellSource, pod: Object, request: ShellRequest) -> Shell:
    try:
        return await source.attach(pod, request)
    except NotRunning as error:
        about = pod["metadata"]
        where = f"{about['name']}_{about['namespace']}"
        raise internal(
            f"unable to upgrade connection: container {request.container} not found in pod {where}"
        ) from error


async def _execute(source: ShellSource, pod: Object, request: ShellRequest) -> Shell:
    if not request.command:
        raise internal("unable to upgrade connection: you must specify at least 1 command for the container")
    try:
        return await source.execute(pod, request)
    except NotRunning as error:
        raise internal(f'unable to upgrade connection: container not found ("{request.container}")') from error
    except CannotStart as error:
        text = (
            "Internal error occurred: error executing command in container: failed to exec in container:"
            f' failed to start exec "{secrets.token_hex(32)}": OCI runtime exec failed: exec failed: {error}: unknown'
        )
        raise internal(text) from error


async def _shell(cluster: Cluster, call: Call, begin: Opener) -> web.StreamResponse:
    pod, source = pod_of(cluster, call)
    query = call.request.query
    container, tty = container_of(pod, query.get("container", "")), truth(query, "tty")
    must_be_placed(pod)
    request = ShellRequest(
        container=container,
        command=tuple(query.getall("command", [])),
        stdin=truth(query, "stdin"),
        stdout=truth(query, "stdout"),
        stderr=truth(query, "stderr") and not tty,
        tty=tty,
    )
    channels = Channels(protocol_of(call.request, (V5, V4)))
    await opened(channels, call.request)
    try:
        shell = await begin(source, pod, request)
    except Status as status:
        await channels.fail(status)
    else:
        await to_its_end(channels.run(shell))
    return channels.socket


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Cancels `work` once when the client goes. The HTTP server cancels its handlers twice, the second time while the
    first still clears up, and the files of a command would stay open."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        _clearing_up.add(task)
        task.add_done_callback(_clearing_up.discard)
        raise


_clearing_up: set[asyncio.Task[None]] = set()


async def forward(cluster: Cluster, call: Call) -> web.StreamResponse:
    """Carries connections to ports of a pod."""
    pod, source = pod_of(cluster, call)
    must_be_placed(pod)
    protocol_of(call.request, (PROTOCOL,))
    forwarding = Forwarding(pod["metadata"]["uid"], partial(source.connect, pod))
    await opened(forwarding, call.request)
    await to_its_end(forwarding.run())
    return forwarding.socket


def pod_of(cluster: Cluster, call: Call) -> tuple[Object, ShellSource]:
    """The pod that the path names."""
    assert cluster.shells is not None
    record = cluster.store.get(call.kind.resource, call.kind.key(call.namespace, call.name))
    if record is None:
        raise not_found(call.kind.subject, call.name)
    return record.object(), cluster.shells


def must_be_placed(pod: Object) -> None:
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")


def protocol_of(request: web.BaseRequest, served: tuple[str, ...]) -> str:
    """The first protocol of `served` that the client offers; 400 when it asks for no WebSocket."""
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise bad_request("Upgrade request required")
    offered = [part.strip() for part in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    for protocol in served:
        if protocol in offered:
            return protocol
    raise bad_request(f"unable to upgrade connection: no subprotocol of {list(served)} was offered")


async def opened(channels: Channels | Forwarding, request: web.BaseRequest) -> None:
    try:
        await channels.open(request)
    except web.HTTPException as refused:
        raise bad_request(f"unable to upgrade connection: {refused.text}") from refused


Handler = Callable[[Cluster, Call], Awaitable[web.StreamResponse]]
STREAMS: dict[str, Handler] = {"exec": execute, "attach": attach, "portforward": forward}
