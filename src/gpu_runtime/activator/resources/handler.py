"""The ConfigMap with the source of a function."""

from __future__ import annotations

from gpu_runtime.activator.kinds import HandlerMap
from gpu_runtime.activator.resources import names
from gpu_runtime.activator.resources.children import child_labels, owned_by
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.serverless import HANDLER_KEY


def handler_map(function: GPUFunction) -> HandlerMap:
    """Immutable: pods of an older source must not see a newer one."""
    assert function.spec.handler is not None
    return HandlerMap(
        metadata=ObjectMeta(
            name=names.handler(function),
            namespace=function.metadata.namespace,
            labels=child_labels(function.metadata.name),
            ownerReferences=[owned_by(function)],
        ),
        data={HANDLER_KEY: function.spec.handler.source},
        immutable=True,
    )
