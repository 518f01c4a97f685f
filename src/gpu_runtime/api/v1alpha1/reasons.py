"""Types and reasons of all conditions."""

from __future__ import annotations

# Condition types
READY = "Ready"
SERVERLESS_READY = "ServerlessReady"
PREPARED = "Prepared"
ACCESSOR_READY = "AccessorReady"

# Any kind
INVALID_SPEC = "InvalidSpec"
NAME_CONFLICT = "NameConflict"
POD_STARTUP_FAILED = "PodStartupFailed"
POD_STATUS_SYNC_FAILED = "PodStatusSyncFailed"

# StockPool
SCALED_TO_ZERO = "ScaledToZero"
DEPLOYMENT_PROGRESSING = "DeploymentProgressing"
DEPLOYMENT_READY = "DeploymentReady"
DEPLOYMENT_SYNC_FAILED = "DeploymentSyncFailed"
SERVICE_SYNC_FAILED = "ServiceSyncFailed"

# GPUUnit
UNIT_READY = "UnitReady"
UNIT_PROGRESSING = "UnitProgressing"
AWAITING_STOCK = "AwaitingStock"
AWAITING_OPERATION = "AwaitingOperation"
STORAGE_NOT_READY = "StorageNotReady"
STORAGE_MOUNT_INVALID = "StorageMountInvalid"
ACCESS_CONFIG_INVALID = "AccessConfigInvalid"
UNIT_DEPLOYMENT_SYNC_FAILED = "UnitDeploymentSyncFailed"
UNIT_SERVICE_SYNC_FAILED = "UnitServiceSyncFailed"
UNIT_NETWORK_POLICY_SYNC_FAILED = "UnitNetworkPolicySyncFailed"
SERVERLESS_CONFIG_INVALID = "ServerlessConfigInvalid"
UNIT_SERVERLESS_READY = "UnitServerlessReady"
UNIT_SERVERLESS_PENDING = "UnitServerlessPending"
UNIT_SERVERLESS_FAILED = "UnitServerlessFailed"

# GPUStorage
STORAGE_READY = "StorageReady"
STORAGE_PENDING = "StoragePending"
STORAGE_INVALID_SPEC = "StorageInvalidSpec"
STORAGE_AWAITING_CONSUMER = "StorageAwaitingConsumer"
STORAGE_PROVISIONING_FAILED = "StorageProvisioningFailed"
STORAGE_RESIZING = "StorageResizing"
STORAGE_RESIZE_FAILED = "StorageResizeFailed"
STORAGE_CLAIM_LOST = "StorageClaimLost"
STORAGE_DELETING = "StorageDeleting"
STORAGE_PVC_SYNC_FAILED = "StoragePVCSyncFailed"
STORAGE_PREPARE_NOT_REQUESTED = "StoragePrepareNotRequested"
STORAGE_PREPARE_PENDING = "StoragePreparePending"
STORAGE_PREPARE_RUNNING = "StoragePrepareRunning"
STORAGE_PREPARE_FAILED = "StoragePrepareFailed"
STORAGE_PREPARE_READY = "StoragePrepareReady"
STORAGE_ACCESSOR_DISABLED = "StorageAccessorDisabled"
STORAGE_ACCESSOR_YIELDED = "StorageAccessorYielded"
STORAGE_ACCESSOR_READY = "StorageAccessorReady"
STORAGE_ACCESSOR_PENDING = "StorageAccessorPending"
STORAGE_ACCESSOR_FAILED = "StorageAccessorFailed"

# GPUFunction
FUNCTION_READY = "FunctionReady"
FUNCTION_IDLE = "FunctionIdle"
FUNCTION_PROGRESSING = "FunctionProgressing"
FUNCTION_UPDATING = "FunctionUpdating"
FUNCTION_DELETING = "FunctionDeleting"
FUNCTION_INVALID_SPEC = "FunctionInvalidSpec"
FUNCTION_BROKER_UNAVAILABLE = "FunctionBrokerUnavailable"
FUNCTION_CHILD_SYNC_FAILED = "FunctionChildSyncFailed"
FUNCTION_WORKER_REFUSED = "FunctionWorkerRefused"
WORKERS_FAILED = "WorkersFailed"
