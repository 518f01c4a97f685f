"""Whether a storage may change as a request asks. Pure: decided on one version of the storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from msgspec import UNSET

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.gpustorage import NO_ACCESSOR, GPUStorage
from gpu_runtime.api.v1alpha1.prepare_digest import prepare_digest
from gpu_runtime.api.validation import FieldError
from gpu_runtime.rest.errors import Clash, InvalidRequest
from gpu_runtime.rest.requests import UpdateGPUStorage


def changed_spec(storage: GPUStorage, change: UpdateGPUStorage) -> dict[str, Any]:
    """The merge patch of the spec, empty when nothing changes.

    Clash when the storage is being deleted, InvalidRequest when it would shrink.
    """
    if storage.metadata.deletionTimestamp is not None:
        raise Clash(f"storage {storage.metadata.name} is being deleted: it cannot be changed any more")
    patch: dict[str, Any] = {}
    if change.size is not UNSET and Quantity.parse(change.size) != amount_of(storage.spec.size):
        _check_growth(storage, change.size)
        patch["size"] = change.size
    if change.accessor is not UNSET:
        accessor = change.accessor or NO_ACCESSOR
        if accessor != storage.spec.accessor:
            patch["accessor"] = {"enabled": accessor.enabled}
    return patch


def grows(patch: Mapping[str, Any]) -> bool:
    return "size" in patch


def _check_growth(storage: GPUStorage, size: str) -> None:
    """InvalidRequest when the new size is smaller than spec.size or than the volume.

    The volume may be larger than spec.size: some classes round up, and kubectl can reduce spec.size.
    """
    for text, what in ((storage.spec.size, "its size"), (storage.status.capacity, "the capacity of its volume")):
        amount = amount_of(text)
        if amount is not None and Quantity.parse(size) < amount:
            message = f"{size} is smaller than {amount}, {what}: a storage can grow, never shrink"
            raise InvalidRequest.of([FieldError("size", message)])


def amount_of(text: str) -> Quantity | None:
    """The size as a quantity; None if it is not known yet, or if kubectl wrote something that is not a quantity."""
    try:
        return Quantity.parse(text)
    except ValueError:
        return None


def recovery_problem(storage: GPUStorage) -> str:
    """Why a recovery makes no sense now; empty when it does."""
    if storage.metadata.deletionTimestamp is not None:
        return "is being deleted: it cannot be recovered"
    if storage.spec.prepare is None:
        return "has no prepare: there is nothing to recover"
    status = storage.status.prepare
    match status.phase if status is not None else "Pending":
        case "Succeeded":
            return "is filled: there is nothing to recover"
        case "NotRequested" | "Pending" | "Running" as phase:
            return f"is being filled (prepare is {phase}): it can be recovered after a failure"
        case "Failed":
            return _failure_problem(storage)
        case _ as never:
            assert_never(never)


def _failure_problem(storage: GPUStorage) -> str:
    """Why this failure cannot be recovered from."""
    status = storage.status.prepare
    assert status is not None
    if not status.observedDigest:
        return f"cannot be filled by its prepare: {status.message}"
    if status.observedDigest != prepare_digest(storage):
        return "is being recovered already"
    return ""
