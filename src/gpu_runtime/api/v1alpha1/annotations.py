"""Annotations and finalizers that carry protocol state. Users' own never begin with our group."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.group import GROUP

# On what an operation made. The id and the hash outlive the Operation.
OPERATION_ID = f"{GROUP}/operation-id"
REQUEST_HASH = f"{GROUP}/request-hash"
OPERATION_UID = f"{GROUP}/operation-uid"

# On a unit: the stock that it consumed. Without these, a unit that names an operation is inert.
SOURCE_STOCK_NAME = f"{GROUP}/source-stock-name"
SOURCE_STOCK_NAMESPACE = f"{GROUP}/source-stock-namespace"
SOURCE_STOCK_UID = f"{GROUP}/source-stock-uid"
SOURCE_STOCK_NODE = f"{GROUP}/source-stock-node"

# On a stock unit: UID of the Operation that claimed it.
CLAIMED_BY = f"{GROUP}/claimed-by"

# On a seeded stock unit: which of how many it is, counted from 1.
STOCK_ORDINAL = f"{GROUP}/stock-ordinal"
STOCK_REPLICAS = f"{GROUP}/stock-replicas"
# On the Operation of a batch: namespace and beginning of the names of its stock units.
BATCH = f"{GROUP}/batch"

# On a storage: its holder, an Attachment as JSON.
ATTACHED_TO = f"{GROUP}/attached-to"
# On a storage: a new value asks for a failed prepare to run again.
STORAGE_RECOVERY_NONCE = f"{GROUP}/storage-recovery-nonce"
# On a claim: UID of the storage whose data it holds, in place of an owner reference.
STORAGE_UID = f"{GROUP}/storage-uid"

STORAGE_FINALIZER = f"{GROUP}/storage"  # on GPUStorage: nothing is deleted while it is attached
CLAIM_FINALIZER = f"{GROUP}/storage-data"  # on its claim: only our controller lets data go
