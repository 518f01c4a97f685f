"""The marks by which the product says who owns what: the one place where the judge knows them."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.group import GROUP

STOCK_NAMESPACE = "runtime-stock"

CLAIMED_BY = f"{GROUP}/claimed-by"  # on stock: UID of the Operation that claimed it
SOURCE_STOCK_UID = f"{GROUP}/source-stock-uid"  # on an active unit: UID of the stock unit that it consumed
OPERATION_ID = f"{GROUP}/operation-id"  # on what an operation made: the client's operationID
REQUEST_HASH = f"{GROUP}/request-hash"
OPERATION_UID = f"{GROUP}/operation-uid"  # on an active unit: UID of the Operation that made it
ATTACHED_TO = f"{GROUP}/attached-to"  # on a storage: JSON of operation, unit and uid

UNFINISHED = frozenset({"Pending", "Running"})
COMMITTED = "Succeeded"
