"""What the broker pays for functions: 1, 100 and 1,000 of them, with their consumers and waiting workers."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from itertools import count
from pathlib import Path

import uvloop

from benchmarks._load import spread
from benchmarks.invocations import connected, nats, told
from gpu_runtime.activator.consumers import Consumers
from gpu_runtime.config.nats import StreamSettings
from gpu_runtime.kube.clock import SYSTEM_CLOCK
from gpu_runtime.serverless import subjects
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.publishing import publish_once
from gpu_runtime.serverless.broker.streams import INVOCATIONS
from gpu_runtime.serverless.messages import DEADLINE, HASH
from gpu_runtime.serverless.subjects import Function, Run

FUNCTIONS = (1, 100, 1000)
CALLS = 5000
CLIENTS = 32
DELIVERED = 500
BODY = json.dumps({"payload": {"x": 1}, "padding": "x" * 500}).encode()

_numbers = count()


def main() -> None:
    for functions in FUNCTIONS:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, nats(Path(folder)) as url:
            uvloop.run(measure(url, functions))


async def measure(url: str, functions: int) -> None:
    names = [Function("runtime-instance", f"f{number}") for number in range(functions)]
    print(f"{functions} functions", flush=True)
    async with connected(url) as broker:
        await streams.ensure(broker, StreamSettings(invocationsBytes=2**29, resultsBytes=2**28, bodiesBytes=2**28))
        before = memory(url)
        consumers = Consumers(broker, Backlog(broker), 30.0)
        began = time.perf_counter()
        for name in names:
            await consumers.ensure(name)
        seconds = time.perf_counter() - began
        say("consumers made", f"{2 * functions} in {seconds:.2f} s, {1000 * seconds / functions / 2:.1f} ms each")
        say("memory of the broker", f"{before:.0f} MiB, {memory(url):.0f} MiB with the consumers")
        await accept(broker, names)
        say("memory of the broker", f"{memory(url):.0f} MiB with {CALLS} invocations")
        await deliver(broker, names)
        await load(broker)


async def accept(broker: Broker, names: list[Function]) -> None:
    headers = {HASH: "0" * 64, DEADLINE: str(int((SYSTEM_CLOCK.now().timestamp() + 3600) * 1000))}

    async def publish(number: int) -> None:
        run = Run(names[number % len(names)], f"id-{number}", 1)
        free = subjects.accepted_any(run)
        await publish_once(broker, subjects.accepted(run, "normal"), BODY, headers=headers, free=free)

    seconds, each = await spread([next(_numbers) for _ in range(CALLS)], CLIENTS, publish)
    say(f"accepted at the broker, {CLIENTS} in flight", f"{CALLS / seconds:.0f}/s, {told(each)}")


async def deliver(broker: Broker, names: list[Function]) -> None:
    """One message after the other from the consumers of all functions, acknowledged."""
    inbox = broker.nats.new_inbox()
    received: asyncio.Queue[str] = asyncio.Queue()

    async def take(message: object) -> None:
        received.put_nowait(getattr(message, "reply", ""))

    await broker.nats.subscribe(inbox, cb=take)
    each = []
    for number in range(DELIVERED):
        consumer = subjects.consumer(names[number % len(names)], "normal")
        began = time.perf_counter()
        await broker.nats.publish(f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{consumer}", b'{"batch":1}', reply=inbox)
        reply = await received.get()
        each.append(time.perf_counter() - began)
        await broker.request(reply, b"+ACK")
    say("delivered to a worker that asks", told(each))


async def load(broker: Broker) -> None:
    """How long an activator or API needs to know all unfinished invocations after its start."""
    backlog = Backlog(broker)
    began = time.perf_counter()
    task = asyncio.create_task(backlog.run())
    while not backlog.loaded:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    say("unfinished invocations read at the start", f"{CALLS} in {time.perf_counter() - began:.2f} s")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def memory(url: str) -> float:
    """Resident memory of the broker that listens there, in MiB."""
    port = url.rpartition(":")[2]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if command[0].endswith(b"nats-server") and f":{port}" in Path(command[2].decode()).read_text():
                return int((folder / "statm").read_text().split()[1]) * 4096 / 2**20
        except (OSError, IndexError):
            continue
    return 0.0


def say(what: str, numbers: str) -> None:
    print(f"  {what:<50} {numbers}", flush=True)
