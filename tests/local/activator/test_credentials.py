"""The Secret of a function's workers."""

from __future__ import annotations

from base64 import b64decode

from equipment.builders import Builder
from equipment.builders.base import new_document
from equipment.memory_api import refused
from equipment.mutation import mutant
from equipment.nats import NatsServer
from gpu_runtime.activator.credentials import LOOK_AGAIN_SECONDS, Credentials
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.serverless import credentials_secret
from gpu_runtime.kube import Forbidden
from local.activator.test_static_workers import FixedSigner
from local.activator.world import ECHO, KEY, NAMESPACE, World, function, world

NAME = credentials_secret("echo")


def content(activator: World) -> str:
    secret = activator.api.find("Secret", NAME)
    assert secret is not None
    return b64decode(secret["data"]["worker.creds"]).decode()


async def test_the_credentials_are_there_before_the_first_worker(server: NatsServer) -> None:
    async with world(server, function(minWorkers=1), signer=FixedSigner()) as activator:
        await activator.settle()
        writes = [write for write in activator.api.writes if write.startswith("create")]
        assert [write.split()[1] for write in writes] == ["Secret", "GPUUnit"]
        assert content(activator) == "credentials of runtime-instance/echo by key-1"


async def test_without_a_signer_there_is_no_secret(server: NatsServer) -> None:
    async with world(server, function(minWorkers=1)) as activator:
        await activator.settle()
        assert activator.api.of_kind("Secret") == []
        assert activator.slots == [0]


async def test_another_process_keeps_the_credentials_and_another_key_replaces_them(server: NatsServer) -> None:
    async with world(server, function(), signer=FixedSigner()) as activator:
        await activator.settle()
        owner, client = function().into(GPUFunction), activator.manager.client
        before = activator.api.find("Secret", NAME)
        await Credentials(client, FixedSigner()).ensure(ECHO, owner)
        assert activator.api.find("Secret", NAME) == before
        await Credentials(client, FixedSigner("key-2")).ensure(ECHO, owner)
        assert content(activator) == "credentials of runtime-instance/echo by key-2"


async def test_a_secret_of_somebody_else_is_reported_and_not_touched(server: NatsServer) -> None:
    foreign = Builder({**new_document("v1", "Secret", NAME, NAMESPACE), "data": {"theirs": "MQ=="}})
    async with world(server, function(minWorkers=1), foreign, signer=FixedSigner()) as activator:
        await activator.reconcile()
        assert activator.condition[:2] == ("Failed", "NameConflict")
        assert activator.api.of_kind("Secret")[0]["data"] == {"theirs": "MQ=="}
        assert activator.slots == []


async def test_a_refused_secret_is_the_cause(server: NatsServer) -> None:
    no = refused(Forbidden, 403, "secrets are forbidden here")
    async with world(server, function(), signer=FixedSigner(), failures={f"create Secret {NAME}": no}) as activator:
        await activator.reconcile()
        assert activator.condition[:2] == ("Failed", "FunctionChildSyncFailed")
        assert "secrets are forbidden here" in activator.condition[2]


@mutant("activator/credentials.py", "known_uid == uid and now - known_at < LOOK_AGAIN_SECONDS", "known_uid == uid")
@mutant("activator/registration.py", "self._starts_a_worker(function) or", "")
async def test_a_secret_that_somebody_deleted_is_made_again_for_the_worker_that_waits_for_it(
    server: NatsServer,
) -> None:
    async with world(server, function(minWorkers=1), signer=FixedSigner()) as activator:
        await activator.settle()
        activator.api.objects = {key: each for key, each in activator.api.objects.items() if key[0] != "Secret"}
        activator.clock.advance(LOOK_AGAIN_SECONDS)
        assert await activator.swept() == [KEY]
        await activator.settle()
        assert content(activator) == "credentials of runtime-instance/echo by key-1"
        activator.ready(0)
        await activator.settle()
        assert await activator.swept() == []
