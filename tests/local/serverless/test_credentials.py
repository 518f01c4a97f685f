"""Credentials at a real broker: each role can do what it needs, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from nats.aio.msg import Msg

from equipment.mutation import mutant
from equipment.nats import SMALL_STREAMS
from equipment.nats_credentials import SecuredNats, connected, running_secured_nats
from equipment.waiting import eventually
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import bodies, streams
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import last, last_direct, publish_once
from gpu_runtime.serverless.broker.streams import BODIES, INVOCATIONS, RESULTS
from gpu_runtime.serverless.credentials.creds import inbox_prefix
from gpu_runtime.serverless.credentials.keyring import KeyRing
from gpu_runtime.serverless.credentials.permissions import Role
from gpu_runtime.serverless.credentials.signing import worker_credentials
from gpu_runtime.serverless.subjects import Function, Run

ECHO, OTHER = Function("runtime-instance", "echo"), Function("runtime-instance", "other")
CONSUMER, OTHERS_CONSUMER = subjects.consumer(ECHO, "normal"), subjects.consumer(OTHER, "normal")
RUN, OTHERS_RUN = Run(ECHO, "inv-1", 1), Run(OTHER, "inv-1", 1)
LARGE = b"x" * (bodies.INLINE_BYTES + 1)


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[SecuredNats]:
    async with running_secured_nats(tmp_path) as running:
        yield running


async def make_consumer(activator: Broker, function: Function) -> str:
    name = subjects.consumer(function, "normal")
    config = {
        "durable_name": name,
        "ack_policy": "explicit",
        "filter_subject": subjects.consumer_filter(function, "normal"),
    }
    request = json.dumps({"stream_name": INVOCATIONS, "config": config}).encode()
    answer = await activator.request(f"$JS.API.CONSUMER.DURABLE.CREATE.{INVOCATIONS}.{name}", request)
    assert "error" not in json.loads(answer.data), answer.data
    return name


async def pull(worker: Broker, consumer: str) -> Msg:
    request = json.dumps({"batch": 1, "expires": 20_000_000_000}).encode()
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{consumer}"
    return await worker.nats.request(subject, request, timeout=25, old_style=True)


async def test_an_invocation_passes_through_all_roles(nats: SecuredNats) -> None:
    function = Function("team-a", "through")
    run = Run(function, "inv-1", 1)
    async with (
        nats.role("runtime-api") as api,
        nats.role("activator") as activator,
        nats.role("result-store") as store,
        nats.worker(function) as worker,
    ):
        consumer = await make_consumer(activator, function)
        beats = await activator.nats.subscribe("wrk.>")
        output = await api.nats.subscribe("out.>")
        cancels = await worker.nats.subscribe(subjects.cancelled(function))
        controls = await worker.nats.subscribe(subjects.control(function, "w-1"))
        for broker in (api, activator, worker):
            await broker.nats.flush()

        payload = await bodies.store(api, run, LARGE, is_json=False)
        assert await publish_once(api, subjects.accepted(run, "normal"), b"{}", free=subjects.accepted_any(run))
        message = await pull(worker, consumer)
        assert message.subject == subjects.accepted(run, "normal")
        await worker.nats.publish(message.reply, b"+WPI")
        assert await last_direct(worker, RESULTS, subjects.ended(run)) is None
        assert await bodies.load(worker, run, payload) == LARGE
        await worker.nats.publish(subjects.heartbeat(function, "w-1"), b"beat")
        assert (await beats.next_msg(20)).data == b"beat"
        await worker.nats.publish(subjects.output(run), b"line")
        assert (await output.next_msg(20)).data == b"line"
        await api.nats.publish(subjects.cancelled(function), b"cancel")
        assert (await cancels.next_msg(20)).data == b"cancel"
        await activator.nats.publish(subjects.control(function, "w-1"), b"drain")
        assert (await controls.next_msg(20)).data == b"drain"

        result = await bodies.store(worker, run, LARGE, is_json=False)
        assert await publish_once(worker, subjects.ended(run), b"{}") is not None
        assert await publish_once(worker, subjects.ended(run), b"{}") is None
        await worker.nats.request(message.reply, b"+ACK", timeout=20)
        assert await publish_once(activator, subjects.ended(run), b"{}") is None
        assert await last(api, RESULTS, subjects.ended(run)) is not None
        assert await bodies.load(store, run, result) == LARGE

        durable = {"durable_name": "result-store-res", "ack_policy": "explicit", "filter_subject": "res.team-a.>"}
        request = json.dumps({"stream_name": RESULTS, "config": durable}).encode()
        made = await store.request(f"$JS.API.CONSUMER.DURABLE.CREATE.{RESULTS}.result-store-res", request)
        assert "error" not in json.loads(made.data)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{RESULTS}.result-store-res"
        event = await store.nats.request(subject, b"1", timeout=20, old_style=True)
        assert event.subject == subjects.ended(run)
        await store.nats.request(event.reply, b"+ACK", timeout=20)
        purge = json.dumps({"filter": subjects.ended(run)}).encode()
        assert json.loads((await store.request(f"$JS.API.STREAM.PURGE.{RESULTS}", purge)).data)["purged"] == 1


async def test_the_open_request_of_a_dead_worker_takes_no_invocation(nats: SecuredNats) -> None:
    run = Run(ECHO, "inv-1", 1)
    async with nats.role("runtime-api") as api, nats.role("activator") as activator:
        consumer = await make_consumer(activator, ECHO)
        async with nats.worker(ECHO) as dead:
            request = json.dumps({"batch": 1, "expires": 60_000_000_000}).encode()
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{consumer}"
            inbox = dead.nats.new_inbox()
            await dead.nats.subscribe(inbox)
            await dead.nats.publish(subject, request, reply=inbox)
            await eventually(lambda: is_waiting(activator, consumer, 1), what="the request is open")
        await eventually(lambda: is_waiting(activator, consumer, 0), what="the request is closed")
        await publish_once(api, subjects.accepted(run, "normal"), b"{}")
        async with nats.worker(ECHO) as worker:
            message = await pull(worker, consumer)
            assert message.subject == subjects.accepted(run, "normal")
            assert message.metadata.num_delivered == 1


async def is_waiting(activator: Broker, consumer: str, number: int) -> bool:
    info = json.loads((await activator.request(f"$JS.API.CONSUMER.INFO.{INVOCATIONS}.{consumer}")).data)
    return bool(info["num_waiting"] == number)


STREAM_CHANGES = [
    f"$JS.API.STREAM.{verb}.{stream}"
    for verb in ("UPDATE", "DELETE", "RESTORE", "SNAPSHOT")
    for stream in (INVOCATIONS, RESULTS, BODIES)
]
REMOVALS = [
    f"$JS.API.STREAM.{verb}.{stream}" for verb in ("PURGE", "MSG.DELETE") for stream in (INVOCATIONS, RESULTS, BODIES)
]
WORKER_MAY_NOT = [
    *STREAM_CHANGES,
    *REMOVALS,
    *(f"$JS.API.STREAM.{verb}.{INVOCATIONS}" for verb in ("CREATE", "INFO", "MSG.GET")),
    "$JS.API.STREAM.CREATE.MINE",
    f"$JS.API.CONSUMER.CREATE.{INVOCATIONS}",
    f"$JS.API.CONSUMER.CREATE.{INVOCATIONS}.mine",
    f"$JS.API.CONSUMER.CREATE.{INVOCATIONS}.{CONSUMER}.inv.>",
    f"$JS.API.CONSUMER.DURABLE.CREATE.{INVOCATIONS}.mine",
    f"$JS.API.CONSUMER.DELETE.{INVOCATIONS}.{CONSUMER}",
    f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{OTHERS_CONSUMER}",
    f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.result-store-inv",
    f"$JS.ACK.{INVOCATIONS}.{OTHERS_CONSUMER}.1.1.1.1.1",
    f"$JS.API.DIRECT.GET.{INVOCATIONS}.{subjects.accepted(RUN, 'normal')}",
    f"$JS.API.DIRECT.GET.{INVOCATIONS}.{subjects.accepted(OTHERS_RUN, 'normal')}",
    f"$JS.API.DIRECT.GET.{RESULTS}.{subjects.ended(OTHERS_RUN)}",
    f"$JS.API.DIRECT.GET.{BODIES}.{subjects.body(OTHERS_RUN, 'key')}.0",
    f"$JS.API.DIRECT.GET.{RESULTS}",
    f"$JS.API.DIRECT.GET.{BODIES}",
    subjects.accepted(RUN, "normal"),
    subjects.accepted(OTHERS_RUN, "high"),
    subjects.ended(OTHERS_RUN),
    f"{subjects.body(OTHERS_RUN, 'key')}.0",
    subjects.output(OTHERS_RUN),
    subjects.heartbeat(OTHER, "w-1"),
    subjects.control(ECHO, "w-2"),
    subjects.cancelled(ECHO),
    "$SYS.REQ.SERVER.PING",
]
WORKER_MAY_NOT_HEAR = [
    ">",
    "inv.>",
    "res.>",
    subjects.accepted_any(RUN),
    subjects.cancelled(OTHER),
    "cancel.>",
    subjects.control(OTHER, "w-1"),
    "_INBOX.>",
    f"{inbox_prefix('USOMEBODY')}.>",
    "wrk.>",
    "out.>",
]
ROLES_MAY_NOT: dict[Role, list[str]] = {
    "runtime-api": [
        *STREAM_CHANGES,
        *REMOVALS,
        f"$JS.API.CONSUMER.DURABLE.CREATE.{INVOCATIONS}.mine",
        f"$JS.API.CONSUMER.CREATE.{INVOCATIONS}.mine",
        f"$JS.API.CONSUMER.DELETE.{INVOCATIONS}.{CONSUMER}",
        f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{CONSUMER}",
        f"$JS.ACK.{INVOCATIONS}.{CONSUMER}.1.1.1.1.1",
        "$JS.API.STREAM.CREATE.OTHER",
        subjects.control(ECHO, "w-1"),
        subjects.heartbeat(ECHO, "w-1"),
    ],
    "activator": [
        *STREAM_CHANGES,
        *REMOVALS,
        f"$JS.API.STREAM.CREATE.{INVOCATIONS}",
        f"$JS.API.CONSUMER.DELETE.{RESULTS}.result-store-res",
        f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{CONSUMER}",
        subjects.accepted(RUN, "normal"),
        f"{subjects.body(RUN, 'key')}.0",
        subjects.heartbeat(ECHO, "w-1"),
    ],
    "result-store": [
        *STREAM_CHANGES,
        f"$JS.API.STREAM.CREATE.{INVOCATIONS}",
        f"$JS.API.CONSUMER.CREATE.{INVOCATIONS}",
        f"$JS.API.CONSUMER.DURABLE.CREATE.{INVOCATIONS}.{CONSUMER}",
        f"$JS.API.CONSUMER.DELETE.{INVOCATIONS}.{CONSUMER}",
        f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{CONSUMER}",
        subjects.accepted(RUN, "normal"),
        subjects.ended(RUN),
        f"{subjects.body(RUN, 'key')}.0",
        subjects.cancelled(ECHO),
    ],
}


class Refusals:
    """What the broker refused one user."""

    def __init__(self, broker: Broker) -> None:
        self._nats = broker.nats
        self._said: list[str] = []
        broker.nats._error_cb = self._note

    async def _note(self, error: Exception) -> None:
        self._said.append(str(error).lower())

    async def publishing(self, subject: str) -> None:
        await self._nats.publish(subject, b"")
        await self._until_said(f'permissions violation for publish to "{subject}"')

    async def subscribing(self, subject: str) -> None:
        await self._nats.subscribe(subject)
        await self._until_said(f'permissions violation for subscription to "{subject}"')

    async def _until_said(self, words: str) -> None:
        await eventually(lambda: any(words.lower() in each for each in self._said), what=f"the broker says: {words}")


async def test_a_worker_may_do_nothing_outside_its_function(nats: SecuredNats) -> None:
    async with nats.worker(ECHO) as worker:
        refusals = Refusals(worker)
        for subject in WORKER_MAY_NOT:
            await refusals.publishing(subject)
        for subject in WORKER_MAY_NOT_HEAR:
            await refusals.subscribing(subject)
        assert worker.nats.is_connected


@pytest.mark.parametrize("role", ROLES_MAY_NOT)
async def test_each_role_may_do_nothing_that_another_role_does(nats: SecuredNats, role: Role) -> None:
    async with nats.role(role) as broker:
        refusals = Refusals(broker)
        for subject in ROLES_MAY_NOT[role]:
            await refusals.publishing(subject)
        for subject in (">", "inv.>", "res.>", "_INBOX.>", "$SYS.>"):
            await refusals.subscribing(subject)


@mutant(
    "serverless/credentials/keyring.py",
    "AccountSigner(KeyPair.from_seed(self.workers).public, KeyPair.from_seed(self.workersSigner))",
    "AccountSigner(KeyPair.from_seed(self.platform).public, KeyPair.from_seed(self.platform))",
)
async def test_a_worker_cannot_name_a_subject_of_others_for_an_answer(nats: SecuredNats) -> None:
    """The broker publishes answers wherever the request says, and asks no permission for that."""
    forged = Run(OTHER, "forged", 1)
    targets = (subjects.ended(forged), subjects.accepted(forged, "normal"), f"{subjects.body(forged, 'key')}.0")
    async with nats.worker(ECHO) as worker, nats.role("activator") as activator, nats.role("runtime-api") as api:
        consumer = await make_consumer(activator, ECHO)
        before = {name: await messages(api, name) for name in (INVOCATIONS, RESULTS, BODIES)}
        own_inbox = worker.nats.new_inbox()
        answers = await worker.nats.subscribe(own_inbox)
        changes = (f"$JS.API.STREAM.PURGE.{RESULTS}", f"$JS.API.CONSUMER.CREATE.{RESULTS}")
        for number, target in enumerate((*targets, *changes, own_inbox)):
            own = Run(ECHO, f"own-{number}", 1)
            await publish_once(api, subjects.accepted(own, "normal"), b"{}")
            assert await publish_once(worker, subjects.ended(own), b"{}") is not None
            await worker.nats.publish(subjects.ended(Run(ECHO, f"own-{number}", 2)), b"", reply=target)
            await worker.nats.publish(f"$JS.API.DIRECT.GET.{RESULTS}.{subjects.ended(own)}", b"", reply=target)
            await worker.nats.publish(f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{consumer}", b"1", reply=target)
        for _ in range(3):
            await answers.next_msg(20)  # the broker has answered the last three requests, and so all before them
        for name, subject in zip((RESULTS, INVOCATIONS, BODIES), targets, strict=True):
            assert await last(api, name, subject) is None, f"the worker stored a message of another function in {name}"
        assert await messages(api, INVOCATIONS) == before[INVOCATIONS] + 6
        assert await messages(api, RESULTS) == before[RESULTS] + 6 + 6
        assert await messages(api, BODIES) == before[BODIES]


async def messages(broker: Broker, stream: str) -> int:
    answer = json.loads((await broker.request(f"$JS.API.STREAM.INFO.{stream}", b"{}")).data)
    number: int = answer["state"]["messages"]
    return number


async def test_streams_with_other_settings_are_reported_and_stay_as_they_are(nats: SecuredNats) -> None:

    async with nats.role("runtime-api") as api:
        differences = await streams.ensure(api, replace(SMALL_STREAMS, resultsBytes=2 * SMALL_STREAMS.resultsBytes))
        assert differences == [
            f"stream {RESULTS} has max_bytes {SMALL_STREAMS.resultsBytes}, not {2 * SMALL_STREAMS.resultsBytes}"
        ]


async def test_expired_and_foreign_credentials_are_refused_with_a_reason(nats: SecuredNats) -> None:
    now = int(time.time())
    signer, foreign = nats.keys.worker_signer(), KeyRing.generate(issued=now).worker_signer()
    for credentials in (
        worker_credentials(signer, ECHO, issued=now - 100, expires=now - 10),
        worker_credentials(foreign, ECHO, issued=now),
        worker_credentials(type(signer)(signer.account, foreign.key), ECHO, issued=now),
    ):
        async with Broker(nats.settings(credentials), "refused") as broker:
            await eventually(lambda: "Authorization Violation" in broker.problem, what="the broker refuses the user")
            assert credentials.key.seed not in broker.problem
            assert not broker.nats.is_connected


# nats-py leaves the connection of a refused attempt to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_process_whose_credentials_expire_must_start_again_and_can_say_why(nats: SecuredNats) -> None:
    now = int(time.time())
    credentials = worker_credentials(nats.keys.worker_signer(), ECHO, issued=now, expires=now + 3)
    async with connected(nats.settings(credentials), "short") as broker:
        await eventually(broker.lost.is_set, what="the broker does not let the user in again")
        assert "Authorization Violation" in broker.problem
