"""Installs what the product needs in a cluster before its processes start.

CRDs, namespaces and priority classes; in the embedded cluster also the Service by which pods reach the broker.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from gpu_runtime.api.crd import definition
from gpu_runtime.api.v1alpha1.crds import KINDS
from gpu_runtime.api.v1alpha1.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpu_runtime.api.v1alpha1.priorities import (
    ACTIVE_PRIORITY,
    ACTIVE_PRIORITY_CLASS,
    STOCK_PRIORITY,
    STOCK_PRIORITY_CLASS,
)
from gpu_runtime.cmd.up.broker import SERVICE, SERVICE_PORT
from gpu_runtime.cmd.up.layout import LOOPBACK
from gpu_runtime.kube.client import Client, Patch
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.errors import AlreadyExists, Conflict, KubeError
from gpu_runtime.supervisor.events import StartFailed

Document = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACES = "/api/v1/namespaces"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SERVICES = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/services"
ENDPOINT_SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/endpointslices"
POLL_SECONDS = 0.05
SERVED_SECONDS = 30.0


def namespaces() -> list[Document]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (SYSTEM_NAMESPACE, STOCK_NAMESPACE, INSTANCE_NAMESPACE)
    ]


def priority_classes() -> list[Document]:
    """Stock never preempts other pods; a user's unit may preempt pods of a lower priority."""
    return [
        _priority_class(ACTIVE_PRIORITY_CLASS, ACTIVE_PRIORITY, "PreemptLowerPriority", "GPU units of users."),
        _priority_class(
            STOCK_PRIORITY_CLASS, STOCK_PRIORITY, "Never", "Warm stock that holds GPUs until a user wants them."
        ),
    ]


def broker_service() -> Document:
    """A Service without a selector: the broker is not a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": SYSTEM_NAMESPACE},
        "spec": {"ports": [{"name": "nats", "port": SERVICE_PORT, "protocol": "TCP"}]},
    }


def broker_endpoint(port: int) -> Document:
    """Where the Service leads: the node relays connections to the broker on the machine's loopback."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": SERVICE,
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"kubernetes.io/service-name": SERVICE},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [LOOPBACK], "conditions": {"ready": True}}],
        "ports": [{"name": "nats", "port": port, "protocol": "TCP"}],
    }


async def install(kubeconfig: Path, broker_port: int | None = None) -> None:
    """Creates missing objects and updates the CRDs. Returns when the API server serves the CRDs.

    With `broker_port`, a Service leads to the broker on this port of this machine.
    """
    try:
        async with Client(load_config(kubeconfig), user_agent="gpu-runtime-up") as client:
            async with asyncio.timeout(SERVED_SECONDS):
                await asyncio.gather(
                    *(_define(client, definition(kind)) for kind in KINDS),
                    *(_ensure(client, NAMESPACES, each) for each in namespaces()),
                    *(_ensure(client, PRIORITY_CLASSES, each) for each in priority_classes()),
                )
                if broker_port is not None:
                    await _ensure(client, SERVICES, broker_service())
                    await _apply(client, ENDPOINT_SLICES, broker_endpoint(broker_port))
    except TimeoutError:
        raise StartFailed("installation", f"the kinds are not served after {SERVED_SECONDS:g} s") from None
    except KubeError as error:
        raise StartFailed("installation", str(error)) from error


async def _ensure(client: Client, collection: str, document: Document) -> bool:
    """Creates the object. Returns False when an object of this name exists."""
    name = document["metadata"]["name"]
    try:
        await client.request("POST", collection, body=document, subject=f"create {document['kind']} {name}")
    except AlreadyExists:
        return False
    return True


async def _apply(client: Client, collection: str, document: Document) -> None:
    """Creates the object, or gives an existing one the fields of the document."""
    if not await _ensure(client, collection, document):
        name = document["metadata"]["name"]
        path, patch = f"{collection}/{name}", Patch.MERGE.value
        await client.request("PATCH", path, body=document, content_type=patch, subject=f"update {name}")


async def _define(client: Client, document: Document) -> None:
    name = document["metadata"]["name"]
    path = f"{DEFINITIONS}/{name}"
    current = await _ensure(client, DEFINITIONS, document)
    while True:
        live = await _read(client, path)
        if not current:
            try:
                # This replaces a CRD of another product version. If nothing changed, the PUT writes nothing.
                await client.request("PUT", path, body={**live, "spec": document["spec"]}, subject=f"update {name}")
            except Conflict:
                continue
            current = True
        elif _condition(live, "Established"):
            return
        else:
            await asyncio.sleep(POLL_SECONDS)


async def _read(client: Client, path: str) -> Document:
    found: Document = msgspec.json.decode(await client.request("GET", path, subject=f"read {path}"))
    return found


def _condition(live: Document, kind: str) -> bool:
    conditions = live.get("status", {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _priority_class(name: str, value: int, preemption: str, description: str) -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": preemption,
        "description": description,
    }
