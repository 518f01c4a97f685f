"""The product's own kinds."""

from __future__ import annotations

import json
from typing import Any, Self

from equipment.builders.base import Builder, new_document
from gpu_runtime.api.v1alpha1.annotations import (
    ATTACHED_TO,
    CLAIMED_BY,
    OPERATION_ID,
    OPERATION_UID,
    SOURCE_STOCK_NAME,
    SOURCE_STOCK_NAMESPACE,
    SOURCE_STOCK_UID,
)
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.group import API_VERSION
from gpu_runtime.api.v1alpha1.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool


class UnitBuilder(Builder):
    def object(self) -> GPUUnit:
        return self.into(GPUUnit)

    def gpu(self, count: int) -> Self:
        return self.spec(gpu=count)

    def memory(self, memory: str) -> Self:
        return self.spec(memory=memory)

    def image(self, image: str) -> Self:
        return self.spec(image=image)

    def port(self, port: int, name: str = "http") -> Self:
        template = self._document["spec"].get("template", {})
        return self.spec(template={**template, "ports": [*template.get("ports", []), {"name": name, "port": port}]})

    def mounting(self, storage: str, path: str = "/data") -> Self:
        mounts = self._document["spec"].get("storageMounts", [])
        return self.spec(storageMounts=[*mounts, {"name": storage, "mountPath": path}])

    def ready(self, node: str = "node-1") -> Self:
        status = self.status(phase="Ready", readyReplicas=1, nodeName=node, observedGeneration=self._generation)
        return status.condition("Ready", "True", "UnitReady")

    def failed(self, reason: str = "PodStartupFailed", message: str = "") -> Self:
        status = self.status(phase="Failed", readyReplicas=0, observedGeneration=self._generation)
        return status.condition("Ready", "False", reason, message)

    def claimed_by(self, operation: Builder) -> Self:
        """Stock that an operation has claimed."""
        return self.annotated({CLAIMED_BY: operation.uid})

    def made_by(self, operation: OperationBuilder) -> Self:
        """Made by an operation, and inert still."""
        return self.annotated({OPERATION_UID: operation.uid, OPERATION_ID: operation.operation_id})

    def consuming(self, stock: Builder) -> Self:
        """Admitted, with the provenance of the stock unit that it consumed."""
        namespace = stock.document()["metadata"]["namespace"]
        source = {SOURCE_STOCK_NAME: stock.name, SOURCE_STOCK_NAMESPACE: namespace, SOURCE_STOCK_UID: stock.uid}
        return self.annotated(source)

    @property
    def _generation(self) -> int:
        return int(self._document["metadata"].get("generation", 1))


class StockPoolBuilder(Builder):
    def object(self) -> StockPool:
        return self.into(StockPool)

    def replicas(self, count: int) -> Self:
        return self.spec(replicas=count)


class StorageBuilder(Builder):
    def object(self) -> GPUStorage:
        return self.into(GPUStorage)

    def size(self, size: str) -> Self:
        return self.spec(size=size)

    def attached_to(self, unit: Builder, operation: Builder) -> Self:
        holder = {"operation": operation.uid, "unit": unit.name, **({"uid": unit.uid} if unit.uid else {})}
        return self.annotated({ATTACHED_TO: json.dumps(holder)})


class OperationBuilder(Builder):
    def object(self) -> Operation:
        return self.into(Operation)

    @property
    def operation_id(self) -> str:
        return str(self._document["spec"]["operationID"])

    def choosing(self, stock: Builder) -> Self:
        chosen = {"namespace": STOCK_NAMESPACE, "name": stock.name, "uid": stock.uid}
        return self.status(decisions={"stock": chosen})

    def making(self, made: Builder) -> Self:
        """Names an object that it makes, or made."""
        document = made.document()
        reference = {
            "kind": document["kind"],
            "namespace": document["metadata"].get("namespace", ""),
            "name": made.name,
            **({"uid": made.uid} if made.uid else {}),
        }
        return self.status(objects=[*self._document.get("status", {}).get("objects", []), reference])

    def committed(self) -> Self:
        return self.status(phase="Succeeded")

    def failed(self, code: str = "insufficient_capacity") -> Self:
        return self.status(phase="Failed", error={"code": code})


class FunctionBuilder(Builder):
    def object(self) -> GPUFunction:
        return self.into(GPUFunction)


def a_unit(name: str, namespace: str = INSTANCE_NAMESPACE, spec_name: str = "g1.1") -> UnitBuilder:
    return UnitBuilder(new_document(API_VERSION, "GPUUnit", name, namespace)).spec(specName=spec_name)


def a_stock_unit(name: str, spec_name: str = "g1.1") -> UnitBuilder:
    """A unit in the stock namespace, free and ready for nothing yet."""
    return a_unit(name, STOCK_NAMESPACE, spec_name)


def a_stock_pool(name: str, namespace: str = "default", spec_name: str = "g1.1") -> StockPoolBuilder:
    return StockPoolBuilder(new_document(API_VERSION, "StockPool", name, namespace)).spec(
        specName=spec_name, replicas=1
    )


def a_storage(name: str, namespace: str = INSTANCE_NAMESPACE) -> StorageBuilder:
    return StorageBuilder(new_document(API_VERSION, "GPUStorage", name, namespace)).size("1Gi")


def an_operation(operation_id: str, operation_type: str = "CreateGPUUnit") -> OperationBuilder:
    """A pending operation."""
    name = f"{operation_type}-{operation_id}".lower()
    spec: dict[str, Any] = {"type": operation_type, "operationID": operation_id, "requestHash": "0" * 64}
    builder = OperationBuilder(new_document(API_VERSION, "Operation", name, SYSTEM_NAMESPACE))
    return builder.spec(**spec).status(phase="Pending")


def a_function(name: str, namespace: str = INSTANCE_NAMESPACE, spec_name: str = "g1.1") -> FunctionBuilder:
    unit = {"specName": spec_name, "image": "python:3.12"}
    return FunctionBuilder(new_document(API_VERSION, "GPUFunction", name, namespace)).spec(unit=unit)
