"""Sends generated calls to both servers, lane by lane: each lane has a namespace and random numbers of its own."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from random import Random

from kube.differential.answer import Answer
from kube.differential.call import Call, get, until
from kube.differential.filling import Unfilled
from kube.differential.generated.kinds import KINDS, Kind
from kube.differential.generated.making import Wish, make, wishes
from kube.differential.masking import ByObject
from kube.differential.running import Mismatch, Pair, compared, prepare
from kube.differential.sending import Side, side
from kube.differential.tolerated import Tolerance, subject

LANES = 8


@dataclass
class Outcome:
    """What a run sent and found."""

    calls: int = 0
    succeeded: int = 0
    verbs: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    mismatches: list[tuple[Wish, Mismatch]] = field(default_factory=list)

    def told(self) -> str:
        return f"{self.calls} calls, {self.succeeded} succeeded, {len(self.mismatches)} differ"

    def table(self) -> str:
        """Calls by kind and verb."""
        return "\n".join(
            f"{kind:34}" + " ".join(f"{verb}={count}" for verb, count in sorted(verbs.items()))
            for kind, verbs in sorted(self.verbs.items())
        )


@dataclass
class Lane:
    """One sequence of calls; the objects that it made are its own."""

    name: str
    random: Random
    left: Side
    right: Side
    tolerance: Tolerance
    outcome: Outcome
    alive: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    remanaged: set[str] = field(default_factory=set)
    """Objects of which a field may have got another manager. The real server then writes a new version, also where
    nothing else changes, and once more when the first manager comes back; ours keeps no managers."""
    count: int = 0

    async def grant(self, wish: Wish) -> None:
        """Sends the wish, after making the object that it needs."""
        alive = self.alive[wish.kind.path]
        if wish.needs_object and not alive:
            await self.send(Wish(wish.kind, "create", "valid"), self.fresh_name(wish.kind))
        if wish.needs_object and alive:
            await self.send(wish, self.random.choice(alive))
        elif not wish.needs_object:
            await self.send(wish, self.fresh_name(wish.kind))

    def fresh_name(self, kind: Kind) -> str:
        self.count += 1
        return f"${{ns}}-g{self.count}" if kind.cluster_scoped else f"g{self.count}"

    async def send(self, wish: Wish, name: str) -> None:
        called = f"widgets.{name}.example.com" if wish.kind.serves and wish.verb != "create" else name
        kept = f"{wish.kind.resource}/{name}".replace("${ns}", "").replace(".", "")
        call = make(wish, called, kept, self.random)
        try:
            left, right = await asyncio.gather(self.left.take(call), self.right.take(call))
        except (Unfilled, TimeoutError) as error:
            raise AssertionError(f"{wish.verb} {wish.kind.resource} {wish.flavour}: {error!r}") from error
        self.note(wish, call, left, right)
        await self.follow(wish, name, kept, left.failed, right.failed)

    def note(self, wish: Wish, call: Call, left: Answer, right: Answer) -> None:
        kind, verb = subject(call)
        self.outcome.calls += 1
        self.outcome.succeeded += not left.failed
        self.outcome.verbs[kind][verb] += 1
        target = "/".join(call.path.split("/")[: wish.kind.path.count("/") + 2])
        if wish.changes_managers:
            self.remanaged.add(target)
        hidden = bool(wish.kind.own_versions) or target in self.remanaged
        self.left.names.own_versions = self.right.names.own_versions = hidden
        self.outcome.mismatches += [(wish, found) for found in compared(call, left, right, self.tolerance)]

    async def follow(self, wish: Wish, name: str, kept: str, left_failed: bool, right_failed: bool) -> None:
        """Keeps the last answer of each object that is on both servers, and forgets the others."""
        alive = self.alive[wish.kind.path]
        if wish.kind.serves and wish.flavour == "valid" and wish.verb in ("delete", "deletecollection"):
            await self.see_gone(wish.kind, list(alive) if wish.verb == "deletecollection" else [name])
        if wish.verb == "deletecollection" and wish.flavour == "valid":
            alive.clear()
        elif wish.verb in ("delete", "eviction") and name in alive and wish.flavour == "valid":
            alive.remove(name)
        elif wish.verb == "create" and wish.flavour != "stale" and not left_failed and wish.can_be_used:
            alive.append(name)
        if name in alive:
            await self.look(wish.kind, name, kept)

    async def see_gone(self, kind: Kind, names: list[str]) -> None:
        """The real server deletes a definition a while after it was told to; until then lists show it."""
        gone = [until(404, get(f"{kind.path}/widgets.{name}.example.com")) for name in names]
        await asyncio.gather(*(one.take(call) for one in (self.left, self.right) for call in gone))

    async def look(self, kind: Kind, name: str, kept: str) -> None:
        """Reads the object anew from both; one that a side lacks is a difference and is used no more."""
        called = f"widgets.{name}.example.com" if kind.serves else name
        both = (self.left, self.right)
        if kind.serves:
            await asyncio.gather(*(one.take(until(200, get(kind.serves.format(name=name)))) for one in both))
        call = Call(method="GET", path=f"{kind.path}/{called}", keep=kept)
        answers = await asyncio.gather(*(one.take(call) for one in both))
        if answers[0].failed != answers[1].failed:
            self.note(Wish(kind, "get", "valid"), call, *answers)
        if any(answer.failed for answer in answers):
            self.alive[kind.path].remove(name)

    async def compare_what_is_left(self) -> None:
        """Lists every kind once more: what only one server has is a difference."""
        for kind in KINDS:
            await self.send(Wish(kind, "list", "valid"), "")


def shares(seed: str, calls: int) -> list[list[Wish]]:
    """The wishes of each lane: every kind, verb and flavour at least once, then again until there are enough."""
    random = Random(seed)
    pool: list[Wish] = []
    while len(pool) < calls:
        round_ = [wish for kind in KINDS for wish in wishes(kind)]
        random.shuffle(round_)
        pool += round_[: calls - len(pool)] if pool else round_
    return [pool[lane::LANES] for lane in range(LANES)]


async def run_lanes(pair: Pair, seed: str, calls: int, run: str, tolerance: Tolerance) -> Outcome:
    """Sends at least `calls` calls; the same seed sends the same ones."""
    outcome = Outcome()

    async def lane(number: int, share: list[Wish]) -> None:
        name = f"g{number}-{run}"
        async with side(pair.left, f"{name}-l") as left, side(pair.right, f"{name}-r") as right:
            left.names, right.names = ByObject(f"{name}-l"), ByObject(f"{name}-r")
            await asyncio.gather(prepare(left), prepare(right))
            one = Lane(name, Random(f"{seed}/{number}"), left, right, tolerance, outcome)
            for wish in share:
                await one.grant(wish)
            await one.compare_what_is_left()

    async with asyncio.TaskGroup() as group:
        for number, share in enumerate(shares(seed, calls)):
            group.create_task(lane(number, share))
    return outcome
