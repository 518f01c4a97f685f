"""Units that users made as workers: a function without a GPUFunction."""

from __future__ import annotations

from equipment.builders import Builder, a_unit
from equipment.nats import NatsServer
from gpu_runtime.api.meta.object import Key
from gpu_runtime.serverless.subjects import Function
from local.activator.world import ECHO, KEY, NAMESPACE, function, world


class FixedSigner:
    def __init__(self, identity: str = "key-1") -> None:
        self.identity = identity

    def sign(self, function: Function) -> str:
        return f"credentials of {function} by {self.identity}"


def static(name: str = "mine", request: str = "echo") -> Builder:
    return a_unit(name).spec(image="echo:1", serverless={"enabled": True, "requestID": request})


async def test_a_static_worker_gets_consumers_and_credentials_and_no_more(server: NatsServer) -> None:
    async with world(server, static(), signer=FixedSigner()) as activator:
        await activator.accept("a")
        await activator.settle()
        assert await activator.activator.consumers.functions() == {ECHO}
        assert [write.split()[:2] for write in activator.api.writes] == [["create", "Secret"]]
        secret = activator.api.of_kind("Secret")[0]
        assert "ownerReferences" not in secret["metadata"]


async def test_they_go_when_the_last_static_worker_is_gone(server: NatsServer) -> None:
    async with world(server, static(), static("other"), signer=FixedSigner()) as activator:
        await activator.settle()
        del activator.api.objects["GPUUnit", Key(NAMESPACE, "mine")]
        await activator.settle()
        assert await activator.activator.consumers.functions() == {ECHO}
        del activator.api.objects["GPUUnit", Key(NAMESPACE, "other")]
        await activator.settle()
        assert await activator.activator.consumers.functions() == set()
        assert activator.api.of_kind("Secret") == []


async def test_a_static_worker_beside_a_function_is_not_counted_and_not_touched(server: NatsServer) -> None:
    async with world(server, function(), static()) as activator:
        await activator.accept("a")
        await activator.settle()
        assert activator.slots == [0]
        activator.clock.advance(1000.0)
        await activator.settle()
        assert activator.api.find("GPUUnit", "mine") is not None
        assert activator.status["workers"] == 1


async def test_a_function_takes_over_the_credentials_of_static_workers(server: NatsServer) -> None:
    async with world(server, static(), signer=FixedSigner()) as activator:
        await activator.settle()
        activator.api.put(function())
        await activator.settle()
        secrets = activator.api.of_kind("Secret")
        assert [each["metadata"]["ownerReferences"][0]["uid"] for each in secrets] == ["echo-uid"]


async def test_a_name_that_could_mean_two_functions_gets_no_consumers(server: NatsServer) -> None:
    async with world(server, static(request="a__b"), signer=FixedSigner()) as activator:
        await activator.settle(Key(NAMESPACE, "a__b"))
        assert await activator.activator.consumers.functions() == set()
        assert activator.api.writes == []


async def test_a_sweep_finds_every_name_without_a_function(server: NatsServer) -> None:
    async with world(server, static("mine", "other"), function()) as activator:
        await activator.settle()
        await activator.accept("a", function=Function(NAMESPACE, "left"))
        await activator.activator.consumers.ensure(Function(NAMESPACE, "old"))
        activator.api.fill(activator.manager)
        await activator.activator.sweep()
        waiting = activator.activator.controller.queue.pending()
        assert waiting == {Key(NAMESPACE, name) for name in ("other", "left", "old")}
        assert KEY not in waiting
