"""The API with a real broker and the embedded API server, in the test's event loop; workers are played by the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from itertools import count
from typing import Any

import aiohttp
import msgspec

from equipment.deaf_proxy import DeafProxy, deaf_proxy
from equipment.nats import SMALL_STREAMS, NatsServer
from equipment.servers import ApiServer
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.config import Health, RuntimeApiSettings
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.http.server import RuntimeApi
from gpu_runtime.kube import Client, load_config
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import last, publish_once
from gpu_runtime.serverless.broker.streams import INVOCATIONS, RESULTS
from gpu_runtime.serverless.messages import HASH, InvocationMessage, ResultMessage, WorkerHeartbeat, encode
from gpu_runtime.serverless.results.base import Batch, ResultStore
from gpu_runtime.serverless.results.records import Acceptance, End
from gpu_runtime.serverless.subjects import Function, Run
from gpu_runtime.service.cluster import GPU_FUNCTIONS
from kube.http.api import Answer

NAMESPACE = "runtime-instance"
INVOCATIONS_PATH = "/serverless/invocations"
_numbers = count(1)


@dataclass
class Api:
    """One running API process."""

    process: RuntimeApi
    session: aiohttp.ClientSession
    task: asyncio.Task[None]
    """Ends with the process."""

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        url = f"{self.process.server.url}/api/v1{path}"
        if body is not None:
            options |= {"data": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}
        if isinstance(data := options.get("data"), bytes):
            options["data"] = BytesIO(data)
        async with self.session.request(method, url, **options) as response:
            text = await response.read()
            is_json = response.content_type == "application/json"
            return Answer(response.status, json.loads(text) if is_json and text else text, response.headers)

    async def submit(self, function: Function, **fields: Any) -> Answer:
        return await self.call("POST", INVOCATIONS_PATH, {"serverlessRequestID": function.name, **fields})

    async def get(self, invocation_id: str, **query: str) -> Answer:
        return await self.call("GET", f"{INVOCATIONS_PATH}/{invocation_id}", params=query)


@dataclass(frozen=True)
class World:
    """A broker, an API server, and a hand that reaches past the API."""

    server: ApiServer
    nats: NatsServer
    client: Client
    broker: Broker
    settings: dict[str, Any] = field(default_factory=dict)

    @asynccontextmanager
    async def api(self, *, nats: NatsSettings | None = None, **settings: Any) -> AsyncIterator[Api]:
        """A running API with warm caches. It is ended with the block."""
        stop = asyncio.Event()
        given: dict[str, Any] = {
            "httpAddr": "127.0.0.1:0",
            "health": Health(port=0),
            "drainSeconds": 1,
            "nats": nats or self.nats.settings,
            "streams": SMALL_STREAMS,
            **self.settings,
            **settings,
        }
        async with Client(load_config(self.server.kubeconfig)) as client, aiohttp.ClientSession() as session:
            process = RuntimeApi(client, RuntimeApiSettings(**given))
            task = asyncio.create_task(process.run(stop))
            try:
                await asyncio.wait_for(process.server.started.wait(), 60)
                await eventually(lambda: not any(process.manager.checks().values()), what="warm caches")
                if process.broker is not None:
                    async with asyncio.timeout(60):
                        await process.broker.connected()
                        await process.services.serverless.streams.ready.wait()
                yield Api(process, session, task)
            finally:
                stop.set()
                await asyncio.gather(task)

    @asynccontextmanager
    async def api_behind_proxy(self, **more: Any) -> AsyncIterator[tuple[Api, DeafProxy]]:
        """A running API that reaches the broker through a proxy."""
        async with deaf_proxy(self.nats.port) as proxy:
            settings = NatsSettings(url=f"nats://127.0.0.1:{proxy.own_port}")
            async with self.api(nats=settings, **more) as api:
                yield api, proxy

    async def function(self, **spec: Any) -> Function:
        """A new function, known to the API server."""
        function = Function(NAMESPACE, f"f{next(_numbers)}")
        unit = {"specName": "cpu.small", "image": "python:3.12"}
        await self.client.create(
            GPU_FUNCTIONS,
            {
                "metadata": {"namespace": function.namespace, "name": function.name},
                "spec": {"unit": unit, **spec},
            },
        )
        return function

    async def set_status(self, function: Function, **status: Any) -> None:
        key = Key(function.namespace, function.name)
        await self.client.patch(GPU_FUNCTIONS, key, {"status": status}, subresource="status")

    async def stored(self, function: Function) -> list[str]:
        """The subjects of all stored invocations of the function."""
        body = json.dumps({"subjects_filter": f"inv.{function.scope}.>"}).encode()
        answer = json.loads((await self.broker.request(f"$JS.API.STREAM.INFO.{INVOCATIONS}", body)).data)
        subjects_: dict[str, int] = answer["state"].get("subjects") or {}
        assert all(number == 1 for number in subjects_.values())
        return sorted(subjects_)

    async def message(self, run: Run) -> InvocationMessage:
        found = await last(self.broker, INVOCATIONS, subjects.accepted_any(run))
        assert found is not None, run
        return msgspec.json.decode(found.data, type=InvocationMessage)

    async def payload(self, run: Run) -> bytes:
        return await bodies.load(self.broker, run, (await self.message(run)).payload)

    async def end(self, run: Run, *, data: bytes = b'{"done":true}', is_json: bool = True, **fields: Any) -> bool:
        """Ends the run as a worker does; whether it was the first."""
        result = ResultMessage(
            invocationID=run.invocation_id,
            serverlessRequestID=run.function.name,
            namespace=run.function.namespace,
            run=run.number,
            body=await bodies.store(self.broker, run, data, is_json=is_json),
            **{
                "state": "succeeded",
                "statusCode": 200,
                "contentType": "application/json" if is_json else "image/png",
                "attempts": 1,
                "workerName": "w1",
                "startedAt": datetime.now(UTC),
                "completedAt": datetime.now(UTC),
                **fields,
            },
        )
        headers = {"Gr-State": result.state}
        return await publish_once(self.broker, subjects.ended(run), encode(result), headers=headers) is not None

    async def publish(self, subject: str, data: bytes) -> None:
        assert await publish_once(self.broker, subject, data) is not None

    async def move_to_database(self, store: ResultStore, run: Run) -> None:
        """Does what the result store and its housekeeping do: afterwards only the database knows the run."""
        accepted = await last(self.broker, INVOCATIONS, subjects.accepted_any(run))
        end, message = await self.result(run), await self.message(run)
        assert accepted is not None
        assert end is not None
        _, priority = subjects.parse_accepted(accepted.subject)
        acceptance = Acceptance(run, accepted.headers[HASH], priority, message.acceptedAt, message)
        await store.save(Batch(acceptances=[acceptance], ends=[End(end, datetime.now(UTC))]))
        await self.purge(INVOCATIONS, subjects.accepted_any(run))
        await self.purge(RESULTS, subjects.ended(run))

    async def purge(self, stream: str, subject: str) -> None:
        body = json.dumps({"filter": subject}).encode()
        answer = json.loads((await self.broker.request(f"$JS.API.STREAM.PURGE.{stream}", body)).data)
        assert answer["success"], answer

    async def result(self, run: Run) -> ResultMessage | None:
        found = await last(self.broker, RESULTS, subjects.ended(run))
        return msgspec.json.decode(found.data, type=ResultMessage) if found is not None else None

    async def heartbeat(self, function: Function, *running: str, worker: str = "w1") -> None:
        beat = WorkerHeartbeat(
            namespace=function.namespace,
            function=function.name,
            workerName=worker,
            state="ready",
            running=list(running),
            sentAt=datetime.now(UTC).timestamp(),
        )
        await self.broker.nats.publish(subjects.heartbeat(function, worker), encode(beat))
