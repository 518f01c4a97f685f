"""Names one run of a prepare: it changes when recovery is asked for, and never otherwise."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from gpu_runtime.api.v1alpha1.annotations import STORAGE_RECOVERY_NONCE
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage


def prepare_digest(storage: GPUStorage) -> str:
    """Digest of the prepare that the storage asks for now. The status is about the prepare of its `observedDigest`."""
    asked = {
        "prepare": storage.spec.prepare,
        "recoveryNonce": storage.metadata.annotations.get(STORAGE_RECOVERY_NONCE, ""),
    }
    return sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()[:12]
