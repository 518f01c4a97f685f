"""The subjects of the broker. All parts build and parse them here.

A subject has a fixed number of tokens. Names, ids and namespaces contain no dots, so none of them adds a token.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Priority = Literal["normal", "high"]

INVOCATION_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
INVOCATION_ID_HINT = "up to 64 letters, digits, '-' and '_', beginning with a letter or digit"
PRIORITY_TOKENS: dict[Priority, str] = {"normal": "n", "high": "h"}
_PRIORITIES: dict[str, Priority] = {token: priority for priority, token in PRIORITY_TOKENS.items()}
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")


def is_invocation_id(text: str) -> bool:
    return re.fullmatch(INVOCATION_ID.removesuffix("$"), text) is not None


class Function(NamedTuple):
    """The function that invocations are for."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def scope(self) -> str:
        """The two tokens of the function in every subject. ValueError for a name that is not one token."""
        if _TOKEN.fullmatch(self.namespace) is None or _TOKEN.fullmatch(self.name) is None:
            raise ValueError(f"{self} cannot be part of a subject")
        return f"{self.namespace}.{self.name}"


class Run(NamedTuple):
    """One run of an invocation. The first run is 1; a redrive adds one."""

    function: Function
    invocation_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.function}/{self.invocation_id} run {self.number}"

    @property
    def scope(self) -> str:
        if not is_invocation_id(self.invocation_id) or self.number < 1:
            raise ValueError(f"{self.invocation_id!r} run {self.number} cannot be part of a subject")
        return f"{self.function.scope}.{self.invocation_id}.{self.number}"

    @property
    def key(self) -> str:
        """The run within its function, as heartbeats list it."""
        return f"{self.invocation_id}.{self.number}"


def accepted(run: Run, priority: Priority) -> str:
    """Where the accepted invocation is stored."""
    return f"inv.{run.scope}.{PRIORITY_TOKENS[priority]}"


def accepted_any(run: Run) -> str:
    """The invocation of either priority: the condition of its publish."""
    return f"inv.{run.scope}.*"


def accepted_runs(function: Function, invocation_id: str) -> str:
    """All runs of one invocation."""
    return f"inv.{Run(function, invocation_id, 1).scope.removesuffix('1')}*.*"


def accepted_ids(invocation_id: str) -> str:
    """All runs of invocations with this id, of any function."""
    return f"inv.*.*.{invocation_id}.*.*"


def ended(run: Run) -> str:
    """Where the run's one terminal event is stored."""
    return f"res.{run.scope}"


def body(run: Run, key: str) -> str:
    """The common beginning of the subjects of a large body's chunks."""
    return f"body.{run.scope}.{key}"


def heartbeat(function: Function, worker: str) -> str:
    return f"wrk.{function.scope}.{worker}"


def control(function: Function, worker: str) -> str:
    return f"ctl.{function.scope}.{worker}"


def cancelled(function: Function) -> str:
    """Where workers learn that a run was cancelled."""
    return f"cancel.{function.scope}"


def output(run: Run) -> str:
    """Partial output of a run, and that it has begun. Not stored."""
    return f"out.{run.scope}"


def consumer(function: Function, priority: Priority) -> str:
    """The name of the durable consumer that the workers of a function share."""
    return f"{function.namespace}__{function.name}__{PRIORITY_TOKENS[priority]}"


def consumer_filter(function: Function, priority: Priority) -> str:
    return f"inv.{function.scope}.*.*.{PRIORITY_TOKENS[priority]}"


def parse_accepted(subject: str) -> tuple[Run, Priority]:
    """The run and priority of an `inv` subject. ValueError for any other subject."""
    match subject.split("."):
        case ["inv", namespace, name, invocation_id, number, token] if number.isdecimal() and token in _PRIORITIES:
            return Run(Function(namespace, name), invocation_id, int(number)), _PRIORITIES[token]
    raise ValueError(f"{subject} is not the subject of an invocation")


def parse_ended(subject: str) -> Run:
    """The run of a `res` subject. ValueError for any other subject."""
    match subject.split("."):
        case ["res", namespace, name, invocation_id, number] if number.isdecimal():
            return Run(Function(namespace, name), invocation_id, int(number))
    raise ValueError(f"{subject} is not the subject of a result")
