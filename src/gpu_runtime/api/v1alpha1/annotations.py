"""Annotations and finalizers that hold protocol state. Annotations of users never begin with our API group."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.group import GROUP

# On objects that an operation made. The id and the hash stay after the Operation is deleted.
OPERATION_ID = f"{GROUP}/operation-id"
REQUEST_HASH = f"{GROUP}/request-hash"
OPERATION_UID = f"{GROUP}/operation-uid"

# On a unit: the stock that it consumed. A unit of an operation is inert until it has these annotations.
SOURCE_STOCK_NAME = f"{GROUP}/source-stock-name"
SOURCE_STOCK_NAMESPACE = f"{GROUP}/source-stock-namespace"
SOURCE_STOCK_UID = f"{GROUP}/source-stock-uid"
SOURCE_STOCK_NODE = f"{GROUP}/source-stock-node"

# On a stock unit: UID of the Operation that claimed it.
CLAIMED_BY = f"{GROUP}/claimed-by"

# On a seeded stock unit: its number in the batch, counted from 1, and the size of the batch.
STOCK_ORDINAL = f"{GROUP}/stock-ordinal"
STOCK_REPLICAS = f"{GROUP}/stock-replicas"
# On the Operation of a batch: namespace and name prefix of its stock units.
BATCH = f"{GROUP}/batch"

# On a GPUStorage: the Attachment (who holds the storage) as JSON.
ATTACHED_TO = f"{GROUP}/attached-to"
# On a GPUStorage: a new value makes a failed prepare run again.
STORAGE_RECOVERY_NONCE = f"{GROUP}/storage-recovery-nonce"
# On a PersistentVolumeClaim: name and UID of the GPUStorage whose data it holds, in place of an owner reference.
STORAGE_NAME = f"{GROUP}/storage-name"
STORAGE_UID = f"{GROUP}/storage-uid"
# A new value makes a write that was decided on an earlier version of the object fail.
FENCE = f"{GROUP}/fence"

# On a GPUFunction that is deleted: `drain` lets its unfinished invocations end, `cancel` cancels them. Default: drain.
PENDING_INVOCATIONS = f"{GROUP}/pending-invocations"

STORAGE_FINALIZER = f"{GROUP}/storage"  # on a GPUStorage: blocks deletion while it is attached
CLAIM_FINALIZER = f"{GROUP}/storage-data"  # on its claim: only our controller may delete the data
FUNCTION_FINALIZER = f"{GROUP}/function"  # on a GPUFunction: its invocations end, and the broker forgets it
