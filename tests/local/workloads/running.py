"""Runs scenarios, several at a time, and compares how they end with the pictures that a real cluster gave."""

from __future__ import annotations

import difflib
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from equipment.servers import ApiServer, fresh_namespace
from local.workloads import volume_scenarios  # noqa: F401  adds its scenarios
from local.workloads.picture import picture
from local.workloads.scenarios import SCENARIOS
from local.workloads.world import Document, World

PICTURES = Path(__file__).parent / "pictures"
RECORD = "GPU_RUNTIME_RECORD_PICTURES"
"""Set in a run on a real cluster to keep what it shows as what is right."""
AT_ONCE = 6
SETTLED_SECONDS = 3.0
LONGEST_SECONDS = 120.0


@dataclass(frozen=True)
class Bed:
    """A cluster to run scenarios on."""

    server: ApiServer
    provisioner: str


class Runs:
    """The runs of all scenarios that a session asks for: most of the time they wait, so they wait together."""

    def __init__(self, bed: Bed, names: Iterable[str]) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._futures: dict[str, Future[None]] = {name: self._pool.submit(run, bed, name) for name in names}

    def result(self, name: str) -> None:
        self._futures[name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def asked_for(session: pytest.Session) -> list[str]:
    """The scenarios that the session will ask for."""
    return [
        str(item.callspec.params["name"])
        for item in session.items
        if isinstance(item, pytest.Function) and "runs" in item.fixturenames
    ]


def run(bed: Bed, name: str, *, ignore_events: bool = False) -> None:
    """Tells one scenario in a namespace of its own; its end must be as the picture shows it."""
    with fresh_namespace(bed.server, name) as namespace:
        world = World(bed.server, namespace, bed.provisioner)
        try:
            SCENARIOS[name](world)
            if os.environ.get(RECORD):
                record(name, world)
            else:
                compare(name, world, ignore_events=ignore_events)
        finally:
            for each in world.list("StorageClass"):
                if each["metadata"]["name"].endswith(namespace):
                    world.delete("StorageClass", each["metadata"]["name"])


def compare(name: str, world: World, *, ignore_events: bool) -> None:
    """The last events and counts may still be on their way; what differs after that is a difference."""
    ignored = ("events",) if ignore_events else ()
    wanted = text_of(json.loads((PICTURES / f"{name}.json").read_text()), ignored)
    deadline = time.monotonic() + LONGEST_SECONDS
    while (seen := text_of(picture(world), ignored)) != wanted and time.monotonic() < deadline:
        time.sleep(0.3)
    if seen != wanted:
        difference = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "real", "seen", lineterm="", n=4)
        raise AssertionError("\n".join(difference))


def record(name: str, world: World) -> None:
    """Keeps the picture once nothing has changed in it for a while."""
    last, since = "", time.monotonic()
    while time.monotonic() - since < SETTLED_SECONDS:
        if (seen := text_of(picture(world))) != last:
            last, since = seen, time.monotonic()
        time.sleep(0.3)
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.json").write_text(last)


def text_of(shown: Document, ignored: Iterable[str] = ()) -> str:
    kept = {key: value for key, value in shown.items() if key not in ignored}
    return json.dumps(kept, indent=1, sort_keys=True) + "\n"
