"""Installs what the product needs in a cluster before its processes start: CRDs, namespaces, priority classes."""

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
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.errors import AlreadyExists, Conflict, KubeError
from gpu_runtime.supervisor.events import StartFailed

Document = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACES = "/api/v1/namespaces"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
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


async def install(kubeconfig: Path) -> None:
    """Creates missing objects and updates the CRDs. Returns when the API server serves the CRDs."""
    try:
        async with Client(load_config(kubeconfig), user_agent="gpu-runtime-up") as client:
            async with asyncio.timeout(SERVED_SECONDS):
                await asyncio.gather(
                    *(_define(client, definition(kind)) for kind in KINDS),
                    *(_ensure(client, NAMESPACES, each) for each in namespaces()),
                    *(_ensure(client, PRIORITY_CLASSES, each) for each in priority_classes()),
                )
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
