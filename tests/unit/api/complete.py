"""One object of each kind with every field set: what the schemas are tested on must leave no field out."""

from __future__ import annotations

from datetime import UTC, datetime

from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.meta.object import Object, ObjectMeta
from gpu_runtime.api.v1alpha1.access import Access
from gpu_runtime.api.v1alpha1.attachment import Attachment
from gpu_runtime.api.v1alpha1.crds import GPU_FUNCTION, GPU_STORAGE, GPU_UNIT, OPERATION, STOCK_POOL
from gpu_runtime.api.v1alpha1.gpufunction import (
    GPUFunction,
    GPUFunctionSpec,
    GPUFunctionStatus,
    Handler,
    RetryPolicy,
    WorkerUnit,
)
from gpu_runtime.api.v1alpha1.gpustorage import (
    Accessor,
    AccessorStatus,
    GPUStorage,
    GPUStorageSpec,
    GPUStorageStatus,
    Prepare,
    PrepareStatus,
)
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus, StorageMount
from gpu_runtime.api.v1alpha1.operation import (
    Decisions,
    ObjectReference,
    Operation,
    OperationError,
    OperationSpec,
    OperationStatus,
    StockChoice,
)
from gpu_runtime.api.v1alpha1.serverless import Framework, HandlerSource, Serverless, ServerlessStatus
from gpu_runtime.api.v1alpha1.stockpool import StockPool, StockPoolSpec, StockPoolStatus
from gpu_runtime.api.v1alpha1.template import (
    EnvVar,
    EnvVarSource,
    ExecAction,
    HttpGetAction,
    Port,
    Probe,
    RuntimeTemplate,
    SecretKeySelector,
    TcpSocketAction,
)

NOW = datetime(2030, 1, 31, 12, 0, 0, tzinfo=UTC)
UID = "0b1c7f3e-0000-4000-8000-000000000001"

# Values differ from the defaults everywhere: what equals its default is left out on the wire.
TEMPLATE = RuntimeTemplate(
    command=["python"],
    args=["-m", "http.server"],
    envs=[
        EnvVar(
            name="MODEL_ID",
            value="demo",
            valueFrom=EnvVarSource(secretKeyRef=SecretKeySelector(name="keys", key="model", optional=True)),
        )
    ],
    ports=[Port(name="http", port=8080, protocol="UDP")],
    readinessProbe=Probe(
        httpGet=HttpGetAction(path="/ready", port="http", scheme="HTTPS"),
        tcpSocket=TcpSocketAction(port=8080),
        exec=ExecAction(command=["true"]),
        initialDelaySeconds=5,
        periodSeconds=6,
        timeoutSeconds=7,
        successThreshold=2,
        failureThreshold=4,
    ),
    terminationGracePeriodSeconds=20,
)
FRAMEWORK = Framework(socketPath="/tmp/serverless-framework/mine.sock", invokePath="/run", healthPath="/ok")
CONDITIONS = [
    Condition(
        type="Ready", status="True", reason="UnitReady", message="up", lastTransitionTime=NOW, observedGeneration=3
    )
]

COMPLETE_STOCK_POOL = StockPool(
    metadata=ObjectMeta(name="complete"),
    spec=StockPoolSpec(specName="g1.1", image="python:3.12", memory="16Gi", gpu=1, replicas=2, template=TEMPLATE),
    status=StockPoolStatus(
        phase="Ready",
        available=2,
        allocated=1,
        replicas=3,
        selector="a=b",
        serviceName="pool-complete",
        observedGeneration=3,
        lastSyncTime=NOW,
        conditions=CONDITIONS,
    ),
)

COMPLETE_GPU_UNIT = GPUUnit(
    metadata=ObjectMeta(name="complete"),
    spec=GPUUnitSpec(
        specName="g1.1",
        image="python:3.12",
        cpu="4",
        memory="16Gi",
        gpu=1,
        template=TEMPLATE,
        access=Access(primaryPort="http", scheme="https"),
        storageMounts=[StorageMount(name="cache", mountPath="/workspace/cache", readOnly=True)],
        serverless=Serverless(
            enabled=True,
            requestID="echo",
            minAvailableCount=1,
            idleTimeoutSeconds=60,
            minRequestCount=1,
            concurrency=4,
            handler=HandlerSource(configMapName="echo-source", entry="answer"),
            framework=FRAMEWORK,
        ),
    ),
    status=GPUUnitStatus(
        phase="Ready",
        readyReplicas=1,
        serviceName="complete",
        accessURL="http://complete:8080",
        nodeName="node-1",
        listed=True,
        serverless=ServerlessStatus(phase="Ready", socketPath="/s", invokePath="/i", healthPath="/h"),
        observedGeneration=3,
        lastSyncTime=NOW,
        conditions=CONDITIONS,
    ),
)

COMPLETE_GPU_STORAGE = GPUStorage(
    metadata=ObjectMeta(name="complete"),
    spec=GPUStorageSpec(
        size="20Gi",
        storageClassName="fast",
        prepare=Prepare(fromImage="models:v1", fromStorageName="other", command=["cp"], args=["-a"]),
        accessor=Accessor(enabled=True),
    ),
    status=GPUStorageStatus(
        phase="Ready",
        claimName="complete",
        capacity="20Gi",
        mountable=True,
        prepare=PrepareStatus(
            phase="Failed",
            jobName="job",
            jobUID="job-uid",
            observedDigest="abc",
            recoveryPhase="Required",
            message="exit code 1",
            filesCopied=1,
            filesTotal=2,
            bytesCopied=3,
            bytesTotal=4,
            startTime=NOW,
            completionTime=NOW,
        ),
        accessor=AccessorStatus(phase="Ready", serviceName="accessor", accessURL="http://accessor"),
        attachedTo=Attachment(unit="demo", storage="other", uid=UID, operation=UID, operationName="op-demo", since=NOW),
        observedGeneration=3,
        lastSyncTime=NOW,
        conditions=CONDITIONS,
    ),
)

COMPLETE_GPU_FUNCTION = GPUFunction(
    metadata=ObjectMeta(name="complete"),
    spec=GPUFunctionSpec(
        unit=WorkerUnit(specName="g1.1", image="python:3.12", cpu="4", memory="16Gi", gpu=1, template=TEMPLATE),
        handler=Handler(source="def answer(payload):\n    return payload\n", entry="answer"),
        queueLimit=100,
        framework=FRAMEWORK,
        concurrency=2,
        minWorkers=1,
        maxWorkers=5,
        idleTimeoutSeconds=60,
        invocationTimeoutSeconds=30,
        retry=RetryPolicy(maxAttempts=3, backoffSeconds=(1,)),
    ),
    status=GPUFunctionStatus(
        phase="Ready", workers=2, readyWorkers=1, observedGeneration=3, lastSyncTime=NOW, conditions=CONDITIONS
    ),
)

COMPLETE_OPERATION = Operation(
    metadata=ObjectMeta(name="complete"),
    spec=OperationSpec(
        type="CreateStockPool", operationID="stock-001", requestHash="0" * 64, request={"specName": "g1.1"}
    ),
    status=OperationStatus(
        phase="Failed",
        decisions=Decisions(stock=StockChoice(namespace="runtime-stock", name="s1", uid=UID, nodeName="node-1")),
        objects=[ObjectReference(kind="GPUUnit", namespace="runtime-instance", name="demo", uid=UID)],
        error=OperationError(code="insufficient_capacity", message="no g1.1 left"),
        completionTime=NOW,
        units=[UID],
        deletionTime=NOW,
        lastSyncTime=NOW,
    ),
)

COMPLETE: dict[str, Object] = {
    STOCK_POOL.kind: COMPLETE_STOCK_POOL,
    GPU_UNIT.kind: COMPLETE_GPU_UNIT,
    GPU_STORAGE.kind: COMPLETE_GPU_STORAGE,
    GPU_FUNCTION.kind: COMPLETE_GPU_FUNCTION,
    OPERATION.kind: COMPLETE_OPERATION,
}
