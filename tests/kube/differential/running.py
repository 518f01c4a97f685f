"""Runs a case on two servers side by side and says where their answers differ."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from equipment.servers import ApiServer
from kube.differential.answer import Answer, Difference, differences
from kube.differential.bar import bar, of_unserved_services
from kube.differential.call import Call, Case, Step, get, post
from kube.differential.filling import Unfilled
from kube.differential.sending import Side, side
from kube.differential.tolerated import Tolerance

NAMESPACE = post("/api/v1/namespaces", {"metadata": {"name": "${ns}"}})
# Without a controller manager nobody makes it, and every pod is refused until it is there.
ACCOUNT = post("/api/v1/namespaces/${ns}/serviceaccounts", {"metadata": {"name": "default"}})
COLLECTION = re.compile(r"/(?:api|apis/[^/]+)/[^/]+/namespaces/\$\{ns\}/[^/]+")


@dataclass(frozen=True)
class Pair:
    """The two servers, left the real one; the same one twice compares a server with itself."""

    left: ApiServer
    right: ApiServer


@dataclass(frozen=True)
class Mismatch:
    """A step that the two servers answered differently."""

    step: Step
    left: Answer
    right: Answer
    differences: list[Difference]

    def __str__(self) -> str:
        lines = [f"{describe(self.step)}", f"    real:     {self.left.brief()}", f"    embedded: {self.right.brief()}"]
        return "\n".join(lines + [f"    {difference}" for difference in self.differences])


def describe(step: Step) -> str:
    if not isinstance(step, Call):
        return f"watch {step.name}"
    query = "&".join(f"{key}={value}" for key, value in step.query.items())
    return f"{step.method} {step.path}{'?' if query else ''}{query}"


async def prepare(one: Side) -> None:
    """Makes the namespace of a case and its ServiceAccount."""
    for call in (NAMESPACE, ACCOUNT):
        answer = await one.take(call)
        if not answer.failed:
            one.names.before = int(answer.body["metadata"]["resourceVersion"])
        if answer.failed and answer.code != 409:
            raise AssertionError(f"{describe(call)}: {answer.brief()}")


async def run(case: Case, pair: Pair, namespace: str, tolerance: Tolerance) -> list[Mismatch]:
    """Every step of the case whose answers differ, in order; ends at a step that one side cannot send."""
    async with side(pair.left, f"{namespace}-l") as left, side(pair.right, f"{namespace}-r") as right:
        await asyncio.gather(prepare(left), prepare(right))
        left.names.own_versions = right.names.own_versions = bool(case.own_versions)
        found: list[Mismatch] = []
        unserved = of_unserved_services(case)
        for step in case.steps:
            try:
                answers = await asyncio.gather(left.take(step), right.take(step))
            except (Unfilled, TimeoutError, ConnectionError) as error:
                return [*found, Mismatch(step, *missing(left, right), [Difference("sending", repr(error), "")])]
            found += compared(step, *answers, tolerance, unserved=unserved)
        for call in final_lists(case):
            answers = await asyncio.gather(left.take(call), right.take(call))
            found += compared(call, *answers, tolerance, unserved=unserved)
        return found


def final_lists(case: Case) -> list[Call]:
    """Lists everything of the kinds that the case wrote in its namespace: what only one server has is a difference."""
    written = (step.path for step in case.steps if isinstance(step, Call) and step.method != "GET")
    matches = [found for path in written if (found := COLLECTION.match(path))]
    return [get(path) for path in dict.fromkeys(found.group() for found in matches)]


def missing(left: Side, right: Side) -> tuple[Answer, Answer]:
    return Answer(left.names), Answer(right.names)


def compared(
    step: Step, left: Answer, right: Answer, tolerance: Tolerance, *, unserved: bool = False
) -> list[Mismatch]:
    """The mismatch of one step, if there is one that the list of tolerated differences does not hold."""
    call = step if isinstance(step, Call) else Call(method="WATCH", path="")
    level = bar(call.path, unserved=unserved)
    if call.compare:
        found = tolerance.without(call, differences(call, left, right, level))
    else:
        found = [] if not left.failed and not right.failed else [Difference("scene", left.brief(), right.brief())]
    return [Mismatch(step, left, right, found)] if found else []
