"""Picks the stock unit that a hand-over consumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from random import Random

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1 import labels
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import StockChoice
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import InsufficientCapacity, Unavailable
from gpu_runtime.service.cluster import GPU_UNITS, Cluster
from gpu_runtime.service.paging import list_all
from gpu_runtime.service.stock.nodes import Nodes
from gpu_runtime.service.stock.ready_stock import ReadyStock, age, state

# If all clients picked the oldest unit, most claims would conflict. Picking among 40 costs 1.6 writes per claim.
OLDEST = 40
# Units that this process chose in the last 2 s are about to be claimed. They are skipped if there are others.
PROMISED_SECONDS = 2.0
BY_SPEC = "namespace and spec"


def by_spec(unit: GPUUnit) -> Iterable[str]:
    """Index function: units by namespace and spec name."""
    return (f"{unit.metadata.namespace}/{unit.spec.specName}",)


class StockPicker:
    """Chooses among Ready and unclaimed stock on usable nodes."""

    def __init__(
        self,
        cluster: Cluster,
        units: Store[GPUUnit],
        namespace: str,
        nodes: Nodes | None,
        rng: Random | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Without `nodes`, every node counts as usable."""
        self._cluster = cluster
        self._units = units
        self._namespace = namespace
        self._nodes = nodes
        self._clock = clock
        self._ready = ReadyStock(units, namespace)
        self._promised: dict[str, float] = {}  # UID and time of the choice, oldest first
        self._rng = rng or Random()  # noqa: S311  spreads clients over the stock; not for security

    async def choose(self, spec: str, tried: Collection[str] = ()) -> StockChoice:
        """A unit that is not in `tried`; InsufficientCapacity when there is none."""
        found = self._some(self._ready.oldest_first(spec), {*tried, *self._promises()})
        if not found:
            found = self._some(self._ready.oldest_first(spec), tried)
        if not found:
            self._check_listed()
            live = await self.live(spec)
            found = await self._some_confirmed(sorted(live, key=age), tried)
            if not found:
                raise InsufficientCapacity(self._shortage(spec, live))
        unit = self._rng.choice(found)
        self._promised[unit.metadata.uid] = self._clock.monotonic()
        return StockChoice(
            namespace=unit.metadata.namespace,
            name=unit.metadata.name,
            uid=unit.metadata.uid,
            nodeName=unit.status.nodeName or None,
        )

    def cached(self, spec: str) -> list[GPUUnit]:
        return self._units.find(BY_SPEC, f"{self._namespace}/{spec}")

    def find(self, choice: StockChoice) -> GPUUnit | None:
        """The chosen unit from the cache, if the UID matches."""
        unit = self._units.get(Key(choice.namespace, choice.name))
        return unit if unit is not None and unit.metadata.uid == choice.uid else None

    async def live(self, spec: str) -> list[GPUUnit]:
        """The stock of the spec, read live. Seeded stock has a spec label; stock created by hand may not have it."""
        seeded = await self._listed(f"{labels.SPEC_NAME}={spec}")
        by_hand = await self._listed(f"!{labels.SPEC_NAME}")
        return [unit for unit in (*seeded, *by_hand) if unit.spec.specName == spec]

    async def _listed(self, selector: str) -> list[GPUUnit]:
        return [unit async for unit in list_all(self._cluster, Query(GPU_UNITS, self._namespace, labels=selector))]

    def _check_listed(self) -> None:
        """Raises Unavailable before the first list of units and nodes: an empty cache does not mean no capacity."""
        if not self._units.version or (self._nodes is not None and not self._nodes.listed):
            raise Unavailable("stock and nodes are not known yet: this process just started; send the request again")

    def _promises(self) -> Iterable[str]:
        """UIDs chosen recently. A hint, not a lock: if two requests choose one unit, the claim decides."""
        now = self._clock.monotonic()
        while self._promised and now - next(iter(self._promised.values())) >= PROMISED_SECONDS:
            del self._promised[next(iter(self._promised))]
        return self._promised

    def _some(self, units: Iterable[GPUUnit], tried: Collection[str]) -> list[GPUUnit]:
        """The first units, at most OLDEST, that can be handed over."""
        fit = (unit for unit in units if unit.metadata.uid not in tried and self.state(unit) == "ready")
        return list(islice(fit, OLDEST))

    async def _some_confirmed(self, units: Sequence[GPUUnit], tried: Collection[str]) -> list[GPUUnit]:
        """Units that can be handed over. If no cached node is usable, asks the server once about each."""
        found = self._some(units, tried)
        if found or self._nodes is None:
            return found
        unusable: set[str] = set()
        for unit in units:
            node = unit.status.nodeName
            if unit.metadata.uid in tried or state(unit) != "ready" or node in unusable:
                continue
            if await self._nodes.usable_now(node):
                return [unit]
            unusable.add(node)
        return []

    def state(self, unit: GPUUnit) -> str:
        """Why the unit cannot be handed over; `ready` when it can."""
        own = state(unit)
        node = unit.status.nodeName
        if own == "ready" and node and self._nodes is not None and not self._nodes.usable(node):
            return "on a node that is down or cordoned"
        return own

    def _shortage(self, spec: str, units: Iterable[GPUUnit]) -> str:
        counts = Counter(self.state(unit) for unit in units)
        if not counts:
            there = "no such stock exists"
        else:
            there = "stock: " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        return f"no stock unit of spec {spec} can be handed over ({there}): seed more, or try again later"
