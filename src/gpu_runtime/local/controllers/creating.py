"""Pods made from a template."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gpu_runtime.api.meta.object import Object, controller_reference, wire
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import ApiError
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.expectations import Expectations
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.controllers.messages import namespace_is_going, server_message
from gpu_runtime.local.kinds.pods import PODS, Pod
from gpu_runtime.local.kinds.wire import Template

MOST_AT_ONCE = 500


def pod_from(template: Template, resource: Resource[Any], owner: Object, *, finalizers: Sequence[str] = ()) -> Any:
    """A pod of `owner` as the template describes it, under a generated name."""
    metadata = template.get("metadata") or {}
    reference = controller_reference(resource.api_version, resource.kind, owner.metadata)
    kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {
        "metadata": {
            **kept,
            "generateName": f"{owner.metadata.name}-",
            "namespace": owner.metadata.namespace,
            "ownerReferences": [wire(reference)],
            "finalizers": [*(metadata.get("finalizers") or []), *finalizers],
        },
        "spec": template.get("spec") or {},
    }


async def create_pods(
    client: Client,
    recorder: Recorder,
    created: Expectations[Pod],
    resource: Resource[Any],
    owner: Object,
    document: Any,
    count: int,
) -> ApiError | None:
    """Creates `count` pods for `owner`, each with its event. Returns the error if the server refused one."""

    async def make() -> None:
        try:
            pod = await client.create(PODS, document)
        except ApiError as error:
            if namespace_is_going(error):
                return
            recorder.event(resource, owner, "FailedCreate", f"Error creating: {server_message(error)}", type="Warning")
            raise
        created.expect(owner.metadata.key, pod)
        recorder.event(resource, owner, "SuccessfulCreate", f"Created pod: {pod.metadata.name}")

    failure = await in_growing_batches(count, make)
    if failure is None or isinstance(failure, ApiError):
        return failure
    raise failure


async def in_growing_batches(count: int, make: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Calls `make` up to `count` times: 1, 2, 4 ... at once, and no further batch after a failure, which it returns.

    What fails for one usually fails for all: a quota must not be asked five hundred times.
    """
    batch, left = 1, min(count, MOST_AT_ONCE)
    while left > 0:
        size = min(batch, left)
        outcomes = await asyncio.gather(*(make() for _ in range(size)), return_exceptions=True)
        failures = [one for one in outcomes if isinstance(one, BaseException)]
        if failures:
            return failures[0]
        left, batch = left - size, batch * 2
    return None
