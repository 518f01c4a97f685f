"""Three real brokers on loopback that form one JetStream cluster."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from equipment.nats import SMALL_STREAMS, NatsServer
from equipment.waiting import eventually
from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from realkube.process import free_ports

REPLICAS = 3
STREAMS = replace(SMALL_STREAMS, replicas=REPLICAS)


@dataclass
class NatsCluster:
    """Each message is stored on all three nodes. Any one node may be killed and started again."""

    nodes: list[NatsServer]
    credentials: Path | None = None
    """The credentials of the user who makes the streams, if the nodes ask for any."""

    @property
    def settings(self) -> NatsSettings:
        return NatsSettings(
            url=",".join(f"nats://127.0.0.1:{node.port}" for node in self.nodes),
            credentialsFile=str(self.credentials) if self.credentials is not None else None,
        )

    def node(self, name: str) -> NatsServer:
        """The node of this name, by which the broker calls its leaders."""
        return self.nodes[int(name.removeprefix("node-"))]


async def leader(broker: Broker, stream: str) -> str:
    """The name of the node that leads the stream; empty while there is none."""
    info = json.loads((await broker.request(f"$JS.API.STREAM.INFO.{stream}", b"{}")).data)
    name: str = info.get("cluster", {}).get("leader", "")
    return name


@asynccontextmanager
async def running_nats_cluster(
    folder: Path, *, extra: str = "", credentials: Path | None = None
) -> AsyncIterator[NatsCluster]:
    """A cluster with empty streams of the product, three replicas each. `extra` is configuration of every node."""
    ports = free_ports(2 * REPLICAS)
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports[REPLICAS:])
    nodes = [
        NatsServer(
            folder / f"node-{number}",
            ports[number],
            f"server_name: node-{number}\n"
            f'cluster {{ name: test, listen: "127.0.0.1:{ports[REPLICAS + number]}", routes: [{routes}] }}\n{extra}',
        )
        for number in range(REPLICAS)
    ]
    cluster = NatsCluster(nodes, credentials)
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            await node.wait_until_it_answers()
        async with Broker(cluster.settings, "setup") as broker:
            await broker.connected()
            await eventually(lambda: _has_streams(broker), what="the cluster has its streams")
        yield cluster
    finally:
        for node in nodes:
            node.kill()


async def _has_streams(broker: Broker) -> bool:
    try:
        return await streams.ensure(broker, STREAMS) == []
    except BrokerError as error:  # a cluster answers so until its nodes have elected a leader
        raise AssertionError(str(error)) from error
