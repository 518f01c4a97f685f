"""Stock units and their pods, as the scene begins with them."""

from __future__ import annotations

from msgspec import Struct

from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpu_runtime.api.v1alpha1.namespaces import STOCK_NAMESPACE
from gpu_runtime.controllers.labels import CONTROLLED_BY
from gpu_runtime.kube.resource import Resource


class StockPod(Struct, frozen=True):
    """As much of a pod as the server keeps here."""

    metadata: ObjectMeta


PODS = Resource("", "v1", "Pod", "pods", StockPod)


def a_stock_unit(number: int) -> GPUUnit:
    ready = Condition.true("Ready", "StockReady", generation=1)
    return GPUUnit(
        metadata=ObjectMeta(name=f"stock-{number}", namespace=STOCK_NAMESPACE, labels={labels.SPEC_NAME: "g1"}),
        spec=GPUUnitSpec(specName="g1", memory="1Gi", gpu=1),
        status=GPUUnitStatus(phase="Ready", observedGeneration=1, conditions=[ready]),
    )


def its_pod(stock: GPUUnit) -> StockPod:
    """The pod that keeps the unit's GPU."""
    meta = stock.metadata
    marks = {CONTROLLED_BY: meta.uid, labels.UNIT: meta.name}
    return StockPod(metadata=ObjectMeta(name=f"{meta.name}-pod", namespace=meta.namespace, labels=marks))
