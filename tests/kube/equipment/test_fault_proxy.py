"""The proxy before a real API server, with real kubectl as the client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from equipment.fault_proxy import (
    FaultProxy,
    bookmark,
    creates,
    deletes,
    events,
    expired,
    gets,
    lists,
    patches,
    watches,
    writes,
)
from equipment.servers import ApiServer
from equipment.waiting import eventually
from realkube import binaries


def config_map(name: str, **data: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


def stored(server: ApiServer, namespace: str) -> dict[str, dict[str, str]]:
    """What the server has, asked past the proxy."""
    answer = server.request("GET", f"/api/v1/namespaces/{namespace}/configmaps")
    items = {item["metadata"]["name"]: item.get("data", {}) for item in answer.body["items"]}
    return {name: data for name, data in items.items() if name != "kube-root-ca.crt"}


class KubectlWatch:
    """`kubectl get --watch` as a child process that prints one line an event."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            return (await self._process.stdout.readline()).decode().strip()

    async def exit(self) -> tuple[int, str]:
        async with asyncio.timeout(60):
            _, errors = await self._process.communicate()
        return self._process.returncode or 0, errors.decode()


@asynccontextmanager
async def kubectl_watch(proxy: FaultProxy, namespace: str) -> AsyncIterator[KubectlWatch]:
    output = '--output=jsonpath={.type} {.object.metadata.name}{.object.code}{"\\n"}'
    process = await asyncio.create_subprocess_exec(
        binaries.ensure("kubectl")["kubectl"], "--kubeconfig", proxy.server.kubeconfig, "-n", namespace,
        "get", "configmaps", "--watch-only", "--output-watch-events", output,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        await proxy.stream(watches("configmaps"))
        yield KubectlWatch(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_kubectl_works_through_the_proxy_as_without_it(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    applied = await fault_proxy.kubectl("-n", namespace, "apply", "-f", "-", input=config_map("a", x="1"))
    assert applied.stdout == "configmap/a created\n"
    again = await fault_proxy.kubectl("-n", namespace, "apply", "-f", "-", input=config_map("a", x="2"))
    assert again.stdout == "configmap/a configured\n"
    through = await fault_proxy.kubectl("-n", namespace, "get", "configmap", "a", "-o", "json")
    past = await asyncio.to_thread(api_server.kubectl, "-n", namespace, "get", "configmap", "a", "-o", "json")
    assert through.stdout == past.stdout
    missing = await fault_proxy.kubectl("-n", namespace, "get", "configmap", "b", check=False)
    assert "NotFound" in missing.stderr
    explained = await fault_proxy.kubectl("explain", "configmap.data")
    assert "FIELD: data" in explained.stdout


async def test_the_history_of_kubectl_holds_what_the_server_stored(fault_proxy: FaultProxy, namespace: str) -> None:
    await fault_proxy.kubectl("-n", namespace, "apply", "-f", "-", input=config_map("a", x="1"))
    await fault_proxy.kubectl("-n", namespace, "apply", "--server-side", "-f", "-", input=config_map("b", x="2"))
    await fault_proxy.kubectl("-n", namespace, "create", "--dry-run=server", "-f", "-", input=config_map("c"))
    await fault_proxy.kubectl("-n", namespace, "delete", "configmap", "a")
    created, applied, tried, deleted = fault_proxy.writes(writes("configmaps").by("kubectl"))
    assert str(created.call) == f"create configmaps {namespace}/a"
    assert created.metadata["name"] == "a"
    assert (applied.call.verb, applied.call.body["data"]) == ("patch", {"x": "2"})
    assert (tried.status, tried.call.dry_run, tried.applied) == (201, True, False)
    assert deleted.uid == created.uid
    assert int(applied.resource_version) > int(created.resource_version)


async def test_a_dropped_response_of_a_real_create_is_found_again(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    fault_proxy.on(creates("configmaps"), times=1).drop_response()
    lost = await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a"), check=False)
    assert lost.returncode != 0
    assert set(stored(api_server, namespace)) == {"a"}
    again = await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a"), check=False)
    assert "AlreadyExists" in again.stderr


async def test_a_dropped_request_leaves_the_real_server_untouched(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    fault_proxy.on(creates("configmaps"), times=1).drop_request()
    lost = await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a"), check=False)
    assert lost.returncode != 0
    assert stored(api_server, namespace) == {}


async def test_a_write_held_on_its_way_is_overtaken_by_another(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a", x="0"))
    held = fault_proxy.on(patches("configmaps"), times=1).hold()
    patch = ("-n", namespace, "patch", "configmap", "a", "--type=merge", "-p")
    async with asyncio.TaskGroup() as group:
        first = group.create_task(fault_proxy.kubectl(*patch, '{"data":{"x":"first"}}'))
        await held.arrived()
        await fault_proxy.kubectl(*patch, '{"data":{"x":"second"}}')
        assert stored(api_server, namespace) == {"a": {"x": "second"}}
        held.release()
        await first
    assert stored(api_server, namespace) == {"a": {"x": "first"}}


async def test_a_write_that_was_refused_to_the_client_lands_later(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    late = fault_proxy.on(creates("configmaps"), times=1).postpone(504)
    refused = await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a"), check=False)
    assert "Timeout" in refused.stderr
    assert stored(api_server, namespace) == {}
    late.release()
    [exchange] = await late.finished()
    assert exchange.status == 201
    assert set(stored(api_server, namespace)) == {"a"}


async def test_kubectl_honours_a_made_up_retry_after(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    fault_proxy.on(creates("configmaps"), times=1).answer(429, headers={"Retry-After": "1"})
    await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a"))
    assert [write.answered for write in fault_proxy.writes(creates("configmaps"))] == [429, 201]
    assert set(stored(api_server, namespace)) == {"a"}


async def test_a_create_sent_twice_conflicts_with_itself(fault_proxy: FaultProxy, namespace: str) -> None:
    fault_proxy.on(creates("configmaps"), times=1).duplicate("second")
    twice = await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a"), check=False)
    assert "AlreadyExists" in twice.stderr
    assert [write.status for write in fault_proxy.writes(creates("configmaps"))] == [201, 409]


async def test_a_rewritten_status_hides_a_deletion_that_was_done(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a"))
    fault_proxy.on(deletes("configmaps"), times=1).rewrite_status(403)
    refused = await fault_proxy.kubectl("-n", namespace, "delete", "configmap", "a", check=False)
    assert "Forbidden" in refused.stderr
    assert stored(api_server, namespace) == {}


async def test_a_rewritten_request_is_what_the_server_stores(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    fault_proxy.on(creates("configmaps")).rewrite_request(lambda document: {**document, "data": {"x": "mutated"}})
    await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a", x="1"))
    assert stored(api_server, namespace) == {"a": {"x": "mutated"}}


async def test_lists_are_rewritten_and_recorded_ones_served_again(fault_proxy: FaultProxy, namespace: str) -> None:
    names = ("-n", namespace, "get", "configmaps", "-o", "name")
    before = (await fault_proxy.kubectl(*names)).stdout
    recorded = fault_proxy.calls(lists("configmaps"))[-1].response
    await fault_proxy.kubectl("-n", namespace, "create", "-f", "-", input=config_map("a"))
    foreign: dict[str, Any] = json.loads(config_map("foreign"))
    adding = fault_proxy.on(lists("configmaps")).rewrite_list(lambda items: [*items, foreign])
    assert "configmap/foreign" in (await fault_proxy.kubectl(*names)).stdout
    adding.remove()
    fault_proxy.on(lists("configmaps"), times=1).answer(200, recorded)
    assert (await fault_proxy.kubectl(*names)).stdout == before
    assert "configmap/a" in (await fault_proxy.kubectl(*names)).stdout


async def test_a_real_watch_passes_event_by_event_and_ends_cleanly(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    async with kubectl_watch(fault_proxy, namespace) as watch:
        for name in ("a", "b"):
            await asyncio.to_thread(api_server.kubectl, "-n", namespace, "create", "-f", "-", input=config_map(name))
            assert await watch.line() == f"ADDED {name}"
        fault_proxy.on(watches("configmaps"), times=1).end()
        assert (await watch.exit())[0] == 0


async def test_a_real_watch_is_cut(fault_proxy: FaultProxy, namespace: str) -> None:
    async with kubectl_watch(fault_proxy, namespace) as watch:
        (await fault_proxy.stream(watches("configmaps"))).cut()
        await watch.exit()
    await eventually(lambda: fault_proxy.streams() == [], what="the proxy lets go of the stream")


async def test_a_real_watch_is_frozen_and_thawed(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    async with kubectl_watch(fault_proxy, namespace) as watch:
        frozen = fault_proxy.on(watches("configmaps")).freeze()
        await asyncio.to_thread(api_server.kubectl, "-n", namespace, "create", "-f", "-", input=config_map("a"))
        stream = await fault_proxy.stream(watches("configmaps"))
        await eventually(lambda: stream.waiting == 1, what="the event lies in the proxy")
        assert stream.delivered == 0
        frozen.thaw()
        assert await watch.line() == "ADDED a"


async def test_a_410_inside_a_real_watch_reaches_kubectl(fault_proxy: FaultProxy, namespace: str) -> None:
    async with kubectl_watch(fault_proxy, namespace) as watch:
        fault_proxy.on(watches("configmaps"), times=1).inject(bookmark("v1", "ConfigMap", "1"))
        assert await watch.line() == "BOOKMARK"
        fault_proxy.on(watches("configmaps"), times=1).inject(expired())
        assert await watch.line() == "ERROR 410"


async def test_events_of_a_real_watch_are_dropped_and_repeated(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    fault_proxy.on(watches("configmaps")).drop_events(events("ADDED", name="a"))
    fault_proxy.on(watches("configmaps")).repeat_events(events(name="b"))
    async with kubectl_watch(fault_proxy, namespace) as watch:
        for name in ("a", "b"):
            await asyncio.to_thread(api_server.kubectl, "-n", namespace, "create", "-f", "-", input=config_map(name))
        await asyncio.to_thread(api_server.kubectl, "-n", namespace, "delete", "configmap", "a")
        assert [await watch.line() for _ in range(3)] == ["ADDED b", "ADDED b", "DELETED a"]


async def test_a_real_process_is_killed_at_its_second_write(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    manifest = "\n---\n".join(config_map(name) for name in "abc")
    process = await asyncio.create_subprocess_exec(
        binaries.ensure("kubectl")["kubectl"], "--kubeconfig", fault_proxy.server.kubeconfig, "-n", namespace,
        "create", "-f", "-", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    kill = fault_proxy.kill_at(2, process.pid, "after")
    await process.communicate(manifest.encode())
    await kill.happened()
    assert process.returncode == -9
    assert set(stored(api_server, namespace)) == {"a", "b"}
    assert fault_proxy.count(gets("configmaps")) == 0
