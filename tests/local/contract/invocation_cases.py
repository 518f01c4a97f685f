"""Answers about invocations and dead letters that no generated request brings about."""

from __future__ import annotations

import json
from typing import Any

from equipment.waiting import eventually_sync
from local.contract.refusals import BASE, Process
from local.contract.report import Documented
from realkube.api import Access

INVOCATIONS, LETTERS = f"{BASE}/serverless/invocations", f"{BASE}/serverless/dead-letters"
ONE, LETTER = f"{INVOCATIONS}/{{invocationID}}", f"{LETTERS}/{{deadLetterID}}"
FUNCTIONS = f"{BASE}/serverless/functions"
POISON_OBJECT = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/runtime-instance/gpufunctions/poison"
TEXT = {"Content-Type": "text/plain"}
TOO_LARGE = {"serverlessRequestID": "x" * (9 * 1024**2)}
POISON = {
    "operationID": "op-poison",
    "name": "poison",
    "unit": {"specName": "cpu.small", "memory": "256Mi"},
    "handler": {"source": "def main(payload):\n    raise ValueError('boom')\n"},
    "retry": {"maxAttempts": 1},
}


def furnish_invocations(api: Process, function: str, runs: tuple[str, ...], names: int) -> None:
    """Invocations for generated requests to meet: some that wait, and one that has ended for each run."""
    for run in runs:
        for name in (f"ended-{run}", *(f"inv-{run}-{number}" for number in range(names))):
            body = {"serverlessRequestID": function, "invocationID": name}
            assert api.ask("POST", INVOCATIONS, body)[0] == 202
        assert api.ask("POST", f"{INVOCATIONS}/ended-{run}/cancel")[0] == 200


def invocation_cases(api: Process, function: str, other: str) -> set[Documented]:
    """Asks each, and insists on its status."""
    new = {"serverlessRequestID": function, "invocationID": "by-hand"}
    shared = {"serverlessRequestID": other, "invocationID": "by-hand"}
    mine = f"?function={function}"
    cases: tuple[tuple[str, str, str, Any, dict[str, str], int], ...] = (
        ("POST", INVOCATIONS, "", {"serverlessRequestID": "nobody"}, {}, 404),
        ("POST", INVOCATIONS, "", new, {}, 202),
        ("POST", INVOCATIONS, "", new, {}, 200),
        ("POST", INVOCATIONS, "", {**new, "payload": 1}, {}, 409),
        ("POST", INVOCATIONS, "", TOO_LARGE, {}, 413),
        ("POST", INVOCATIONS, "", {}, TEXT, 415),
        ("POST", f"{INVOCATIONS}/batch", "", {"invocations": [new]}, {}, 200),
        ("POST", f"{INVOCATIONS}/batch", "", {"invocations": [TOO_LARGE]}, {}, 413),
        ("POST", f"{INVOCATIONS}/batch", "", {}, TEXT, 415),
        ("GET", INVOCATIONS, mine, None, {}, 200),
        ("GET", ONE, "by-hand", None, {}, 200),
        ("GET", ONE, "nothing", None, {}, 404),
        ("POST", INVOCATIONS, "", shared, {}, 202),
        *(("GET", path, "by-hand", None, {}, 409) for path in (ONE, f"{ONE}/stream")),
        *(("POST", f"{ONE}/{action}", "by-hand", None, {}, 409) for action in ("cancel", "retry")),
        ("POST", f"{ONE}/cancel", f"by-hand{mine}", None, {}, 200),
        ("GET", f"{ONE}/stream", f"by-hand{mine}", None, {}, 200),
        ("GET", f"{ONE}/stream", f"by-hand{mine}", None, {"Last-Event-ID": "1.end"}, 204),
        ("POST", f"{ONE}/retry", f"by-hand{mine}", None, {}, 202),
        ("POST", f"{ONE}/retry", f"by-hand{mine}", None, {}, 200),
        *(("POST", f"{ONE}/{action}", "nothing", None, {}, 404) for action in ("cancel", "retry")),
        ("GET", f"{ONE}/stream", "nothing", None, {}, 404),
        ("GET", LETTER, "nothing", None, {}, 404),
        ("POST", f"{LETTER}/redrive", "nothing", None, {}, 404),
        ("POST", f"{LETTERS}/redrive", "", TOO_LARGE, {}, 413),
        ("POST", f"{LETTERS}/redrive", "", {}, TEXT, 415),
    )
    for method, path, name, body, headers, status in cases:
        target = _target(path, name)
        got, _, said = api.ask(method, target, body, headers)
        assert got == status, (method, target, got, said)
    return {(method, path, status) for method, path, _, _, _, status in cases}


def dead_letter_cases(api: Process, cluster: Access) -> set[Documented]:
    """A function that always fails makes dead letters. While it is being deleted, none of them can be redriven."""
    assert api.ask("POST", FUNCTIONS, POISON)[0] == 201
    for name in ("dead-1", "dead-2"):
        body = {"serverlessRequestID": "poison", "invocationID": name, "mode": "sync", "waitSeconds": 120}
        status, _, said = api.ask("POST", INVOCATIONS, body, timeout=180)
        assert (status, json.loads(said)["data"]["state"]) == (200, "dead_lettered"), said

    def letters() -> list[str]:
        found = json.loads(api.ask("GET", f"{LETTERS}?function=poison")[2])["data"]
        assert len(found) == 2
        return [f"{LETTERS}/{letter['id']}" for letter in found]

    first, second = eventually_sync(letters, within=60, what="the dead letters are stored")
    assert api.ask("GET", first)[0] == 200
    assert api.ask("POST", f"{first}/redrive")[0] == 202
    assert api.ask("POST", f"{first}/redrive")[0] == 200
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    cluster.request("PATCH", POISON_OBJECT, held, "application/merge-patch+json")
    cluster.request("DELETE", POISON_OBJECT)

    def refused() -> bool:
        return api.ask("POST", f"{second}/redrive")[0] == 409

    eventually_sync(refused, within=60, what="the deletion is known")
    cluster.request("PATCH", POISON_OBJECT, {"metadata": {"finalizers": []}}, "application/merge-patch+json")
    assert api.ask("POST", f"{LETTERS}/redrive", {"serverlessRequestID": "poison"})[0] == 200
    return {
        ("GET", LETTERS, 200),
        ("GET", LETTER, 200),
        *(("POST", f"{LETTER}/redrive", status) for status in (200, 202, 409)),
        ("POST", f"{LETTERS}/redrive", 200),
    }


def _target(path: str, name: str) -> str:
    if "{" not in path:
        return path + name
    name, _, query = name.partition("?")
    target = path.replace("{invocationID}", name).replace("{deadLetterID}", name)
    return f"{target}?{query}" if query else target
