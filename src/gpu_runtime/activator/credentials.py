"""The Secret with which the workers of a function log in at the broker."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from typing import Protocol

from gpu_runtime.activator.kinds import SECRET_VIEWS, SECRETS, Secret, SecretView
from gpu_runtime.activator.readiness import Blocked, Readiness
from gpu_runtime.activator.resources.children import child_labels, owned_by
from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.group import GROUP
from gpu_runtime.api.v1alpha1.reasons import FUNCTION_CHILD_SYNC_FAILED, NAME_CONFLICT
from gpu_runtime.api.v1alpha1.serverless import CREDENTIALS_KEY, credentials_secret
from gpu_runtime.kube.children import identity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, TooManyRequests
from gpu_runtime.serverless.subjects import Function

SIGNED_BY = f"{GROUP}/signed-by"
"""Annotation of the Secret: the key that signed the credentials. After a change of keys they are made anew."""
RETRY_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 15.0


class Signer(Protocol):
    """Makes credentials that allow the work of one function and nothing else."""

    @property
    def identity(self) -> str:
        """The public key that signs."""

    def sign(self, function: Function) -> str:
        """The content of a credentials file. Secret."""


class Credentials:
    """Creates Secrets and never reads what is in them. Without a signer the broker asks for no credentials."""

    def __init__(self, client: Client, signer: Signer | None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client = client
        self._signer = signer
        self._clock = clock
        self._known: dict[Function, tuple[str, float]] = {}
        """Functions whose Secret existed: the UID of their GPUFunction (empty for static workers), and when."""

    async def ensure(self, function: Function, owner: GPUFunction | None) -> None:
        """Makes the Secret, or makes it anew if another key signs now. Looks again from time to time: others can
        delete it, and then no new worker would start."""
        if self._signer is None:
            return
        uid, now = owner.metadata.uid if owner is not None else "", self._clock.monotonic()
        known_uid, known_at = self._known.get(function, (None, 0.0))
        if known_uid == uid and now - known_at < LOOK_AGAIN_SECONDS:
            return
        try:
            await self._write(function, owner, self._signer)
        except (Conflict, TooManyRequests):
            raise
        except ApiError as error:
            message = f"the Secret with the workers' credentials cannot be written: {error}"
            raise Blocked(Readiness("failed", FUNCTION_CHILD_SYNC_FAILED, message), seconds=RETRY_SECONDS) from error
        self._known[function] = (uid, now)

    async def remove(self, function: Function) -> None:
        """Deletes the Secret of static workers. That of a GPUFunction goes with its owner."""
        if self._signer is None:
            return
        found = await self._find(_key(function))
        if found is not None and _is_ours(found) and found.metadata.controller is None:
            with suppress(NotFound, Conflict):
                await self._client.delete(SECRET_VIEWS, found.metadata.key, uid=found.metadata.uid)
        self._known.pop(function, None)

    def forget(self, function: Function) -> None:
        self._known.pop(function, None)

    async def _write(self, function: Function, owner: GPUFunction | None, signer: Signer) -> None:
        key = _key(function)
        found = await self._find(key)
        if found is None:
            try:
                await self._client.create(SECRETS, _secret(function, owner, signer))
                return
            except AlreadyExists:  # another activator made it
                found = await self._client.get(SECRET_VIEWS, key)
        if not _is_ours(found):
            message = f"Secret {key} exists and is not ours; rename or delete it"
            raise Blocked(Readiness("failed", NAME_CONFLICT, message), seconds=RETRY_SECONDS)
        wanted = _secret(function, owner, signer)
        references = [] if owner is None else [owned_by(owner)]
        is_current = found.metadata.annotations.get(SIGNED_BY) == signer.identity
        if is_current and found.metadata.ownerReferences == references:
            return
        metadata = {
            **identity(found.metadata),
            "annotations": wanted.metadata.annotations,
            "ownerReferences": references or None,
        }
        patch = {"metadata": metadata, **({} if is_current else {"data": wanted.data})}
        await self._client.patch(SECRET_VIEWS, key, patch)

    async def _find(self, key: Key) -> SecretView | None:
        try:
            return await self._client.get(SECRET_VIEWS, key)
        except NotFound:
            return None


def _key(function: Function) -> Key:
    return Key(function.namespace, credentials_secret(function.name))


def _is_ours(secret: SecretView) -> bool:
    return secret.metadata.labels.get(labels.MANAGED_BY) == labels.MANAGER and SIGNED_BY in secret.metadata.annotations


def _secret(function: Function, owner: GPUFunction | None, signer: Signer) -> Secret:
    key = _key(function)
    return Secret(
        metadata=ObjectMeta(
            name=key.name,
            namespace=key.namespace,
            labels=child_labels(function.name),
            annotations={SIGNED_BY: signer.identity},
            ownerReferences=[owned_by(owner)] if owner is not None else [],
        ),
        data={CREDENTIALS_KEY: b64encode(signer.sign(function).encode()).decode()},
    )
