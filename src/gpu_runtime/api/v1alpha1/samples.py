"""One small sample of each kind, ready for `kubectl apply -k config/samples`."""

from __future__ import annotations

from gpu_runtime.api.meta.object import Object, ObjectMeta
from gpu_runtime.api.v1alpha1.access import Access
from gpu_runtime.api.v1alpha1.crds import GPU_FUNCTION, GPU_STORAGE, GPU_UNIT, OPERATION, STOCK_POOL
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction, GPUFunctionSpec, Handler, WorkerUnit
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, GPUStorageSpec
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec, StorageMount
from gpu_runtime.api.v1alpha1.operation import ObjectReference, Operation, OperationSpec, OperationStatus
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolSpec
from gpu_runtime.api.v1alpha1.template import EnvVar, Port, RuntimeTemplate

_SERVE_FILES = RuntimeTemplate(
    command=["python"],
    args=["-m", "http.server", "8080"],
    envs=[EnvVar(name="MODEL_ID", value="demo-model")],
    ports=[Port(name="http", port=8080)],
)

STOCK_POOL_SAMPLE = StockPool(
    metadata=ObjectMeta(name="pool-sample"),
    spec=StockPoolSpec(specName="g1.1", image="python:3.12-slim", memory="256Mi", replicas=1, template=_SERVE_FILES),
)

GPU_UNIT_SAMPLE = GPUUnit(
    metadata=ObjectMeta(name="unit-sample"),
    spec=GPUUnitSpec(
        specName="g1.1",
        image="python:3.12",
        cpu="500m",
        memory="256Mi",
        template=_SERVE_FILES,
        access=Access(primaryPort="http"),
        storageMounts=[StorageMount(name="storage-sample", mountPath="/workspace/cache")],
    ),
)

GPU_STORAGE_SAMPLE = GPUStorage(metadata=ObjectMeta(name="storage-sample"), spec=GPUStorageSpec(size="1Gi"))

GPU_FUNCTION_SAMPLE = GPUFunction(
    metadata=ObjectMeta(name="function-sample"),
    spec=GPUFunctionSpec(
        unit=WorkerUnit(specName="cpu.small", memory="256Mi"),
        handler=Handler(source='def main(payload):\n    return {"got": payload}\n'),
        maxWorkers=3,
    ),
)

# Only the runtime-api writes Operations; this sample shows a finished one.
OPERATION_SAMPLE = Operation(
    metadata=ObjectMeta(name="operation-sample"),
    spec=OperationSpec(
        type="CreateStockPool",
        operationID="stock-g1-demo-001",
        requestHash="0" * 64,
    ),
    status=OperationStatus(
        phase="Succeeded", objects=[ObjectReference(kind="StockPool", namespace="default", name="pool-sample")]
    ),
)

SAMPLES: dict[str, Object] = {
    STOCK_POOL.singular: STOCK_POOL_SAMPLE,
    GPU_UNIT.singular: GPU_UNIT_SAMPLE,
    GPU_STORAGE.singular: GPU_STORAGE_SAMPLE,
    GPU_FUNCTION.singular: GPU_FUNCTION_SAMPLE,
    OPERATION.singular: OPERATION_SAMPLE,
}
