"""Nodes that exist only in the API, kept alive by kwok, with room for many pods."""

from __future__ import annotations

from http import HTTPStatus

from equipment.servers import ApiServer
from realkube.flags import FAKE_NODE
from realkube.process import wait_until

CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "200", "nvidia.com/gpu": "16"}


def add_fake_nodes(server: ApiServer, count: int) -> list[str]:
    """Make the nodes and return their names once all are Ready; those that are there already are used as they are."""
    if server.plane is not None:
        server.plane.start_kwok()
    names = [f"fake-{index}" for index in range(count)]
    for name in names:
        made = server.request("POST", "/api/v1/nodes", fake_node(name))
        assert made.status in (HTTPStatus.CREATED, HTTPStatus.CONFLICT), made
    wait_until(lambda: all(is_ready(server, name) for name in names), "the fake nodes are Ready (is kwok running?)")
    return names


def fake_node(name: str) -> dict[str, object]:
    """A node as kwok wants it: its annotation, and what it has to offer in its status."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": FAKE_NODE,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"},
        },
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
    }


def is_ready(server: ApiServer, name: str) -> bool:
    """Whether the node's Ready condition holds."""
    conditions = server.request("GET", f"/api/v1/nodes/{name}").body["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
