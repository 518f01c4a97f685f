"""Leader election by a Lease. It only saves work: no write relies on it for safety."""

from __future__ import annotations

import asyncio
from datetime import datetime

import msgspec
import structlog

from gpu_runtime.api.meta.object import Key, ObjectMeta
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from gpu_runtime.kube.resource import Resource


class LeaseSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    holderIdentity: str = ""
    leaseDurationSeconds: int = 0
    acquireTime: datetime | None = None
    renewTime: datetime | None = None
    leaseTransitions: int = 0


class Lease(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", Lease)


class Terms(msgspec.Struct, frozen=True):
    """Times of the election, in seconds.

    A crashed leader is replaced after `duration` + `retry`. A leader that cannot renew stops `give_up` seconds after
    its last renewal.
    """

    duration: float = 10.0
    give_up: float = 7.0
    retry: float = 1.5


class Election:
    """Campaigns for one Lease and renews it.

    The times in another holder's lease are never compared with our clock: a lease has expired when *we* have seen no
    change of it for its duration, so clocks may differ between machines.

    A term lasts from `acquire` until the last renewal is `give_up` seconds old. Then it is over for good: `holds` has
    returned False and controllers stop, so a renewal that is answered later must not make `holds` True again.
    """

    def __init__(
        self, client: Client, key: Key, identity: str, *, terms: Terms | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.key = key
        self.identity = identity
        self._client = client
        self._terms = terms or Terms()
        self._clock = clock
        self._lease: Lease | None = None
        self._changed_at = 0.0
        self._renewed_at: float | None = None
        self._trouble: str | None = None
        self._log = structlog.get_logger("election").bind(lease=str(key), identity=identity)

    @property
    def problem(self) -> str | None:
        """Why the last attempt to get the lease failed; None for a leader, and when the server answered."""
        return None if self.holds() else self._trouble

    def holds(self) -> bool:
        """True while no other process can have taken the lease. Right also in a process that was frozen and wakes."""
        return self._left() > 0

    async def acquire(self) -> None:
        """Returns when the lease is ours."""
        while True:
            self._renewed_at = None
            # An answer that came after `give_up` does not count: the lease is ours, but the next attempt must renew it.
            if await self._attempt("cannot campaign; retrying", self._terms.give_up) and self.holds():
                self._log.info("leading")
                return
            await asyncio.sleep(self._terms.retry)

    async def keep(self) -> None:
        """Renews until the term ends or another process holds the lease; then this process no longer leads."""
        while self.holds():
            await asyncio.sleep(self._pause())
            if not self.holds():
                break
            if not await self._attempt("cannot renew", self._left()) and self._held_by_other():
                break
        self._renewed_at = None
        self._log.warning("no longer leading")

    async def release(self) -> None:
        """Releases the lease so that a successor need not wait until it expires."""
        if self._renewed_at is None or self._lease is None:
            return
        self._renewed_at = None
        spec = msgspec.structs.replace(
            self._lease.spec,
            holderIdentity="",
            leaseDurationSeconds=1,
            renewTime=self._clock.now().replace(microsecond=1),
        )
        try:
            async with asyncio.timeout(self._terms.give_up):  # later the lease expires by itself
                await self._client.replace(LEASES, msgspec.structs.replace(self._lease, spec=spec))
        except (KubeError, TimeoutError) as error:
            problem = str(error) or "no answer in time"
            self._log.warning("could not release the lease: it will expire", problem=problem)

    def _left(self) -> float:
        """Seconds until this term ends if no renewal succeeds."""
        if self._renewed_at is None:
            return 0.0
        return self._renewed_at + self._terms.give_up - self._clock.monotonic()

    def _pause(self) -> float:
        """Seconds until the next renewal: fewer when the last one was answered late, but never a tight loop."""
        return min(self._terms.retry, max(self._left() / 2, self._terms.retry / 10))

    async def _attempt(self, complaint: str, seconds: float) -> bool:
        """One attempt of at most `seconds`; True when the lease is ours. Logs `complaint` when it fails."""
        try:
            async with asyncio.timeout(seconds):
                ours = await self._try()
        except (KubeError, TimeoutError) as error:
            self._trouble = str(error) or f"no answer within {seconds:.1f} s"
            self._log.warning(complaint, problem=self._trouble)
            return False
        self._trouble = None
        return ours

    async def _try(self) -> bool:
        asked_at = self._clock.monotonic()
        if self._lease is None or self._lease.spec.holderIdentity != self.identity:
            await self._read()
        lease = self._lease
        if lease is not None and lease.spec.holderIdentity not in ("", self.identity) and not self._expired(lease):
            return False
        try:
            self._note(await self._write(lease))
        except (Conflict, AlreadyExists, NotFound):
            # Another process was faster, the answer to our last write was lost, or a person deleted the lease: read it
            # before the next attempt.
            self._lease = None
            return False
        if self._renewed_at is None or self.holds():
            # A late answer does not revive a term that is over. Time counts from before the request, which may be slow.
            self._renewed_at = asked_at
        return True

    async def _read(self) -> None:
        try:
            self._note(await self._client.get(LEASES, self.key))
        except NotFound:
            self._lease = None

    def _note(self, lease: Lease) -> None:
        if self._lease is None or self._lease.metadata.resourceVersion != lease.metadata.resourceVersion:
            self._changed_at = self._clock.monotonic()
        self._lease = lease

    def _held_by_other(self) -> bool:
        return self._lease is not None and self._lease.spec.holderIdentity != self.identity

    def _expired(self, lease: Lease) -> bool:
        return self._clock.monotonic() - self._changed_at > lease.spec.leaseDurationSeconds

    async def _write(self, lease: Lease | None) -> Lease:
        now = self._clock.now()
        # The server reads these times with six digits after the point or not at all, and zero would print none.
        now = now.replace(microsecond=now.microsecond or 1)
        duration = max(1, round(self._terms.duration))
        if lease is None:
            spec = LeaseSpec(
                holderIdentity=self.identity, leaseDurationSeconds=duration, acquireTime=now, renewTime=now
            )
            meta = ObjectMeta(name=self.key.name, namespace=self.key.namespace)
            return await self._client.create(LEASES, Lease(metadata=meta, spec=spec))
        mine = lease.spec.holderIdentity == self.identity
        spec = LeaseSpec(
            holderIdentity=self.identity,
            leaseDurationSeconds=duration,
            acquireTime=lease.spec.acquireTime if mine else now,
            renewTime=now,
            leaseTransitions=lease.spec.leaseTransitions + (0 if mine else 1),
        )
        return await self._client.replace(LEASES, msgspec.structs.replace(lease, spec=spec))
