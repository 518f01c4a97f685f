"""Every constraint in the generated schemas is enforced by the real API server, which names the field at fault."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

import pytest

from gpu_runtime.api.kind import Kind
from gpu_runtime.api.v1alpha1.crds import KINDS
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import Invalid
from kube.api.objects import Objects
from unit.api.complete import COMPLETE
from unit.api.schema_cases import Case, Schema, as_json, constraints, invalid_cases, rules

AT_ONCE = 8

# What the server says for each keyword, so that no case passes for another reason than its own.
WORDS = {
    "type": "must be of type",
    "x-kubernetes-int-or-string": "must be of type integer,string",
    "format": "",  # a number that is too large is refused for its limit, its type or its format
    "enum": "Unsupported value",
    "pattern": "should match",
    "required": "Required value",
    "minLength": "should be at least",
    "maxLength": "Too long",
    "minimum": "should be greater than or equal to",
    "maximum": "should be less than or equal to",
    "minItems": "should have at least",
    "maxItems": "Too many",
    "x-kubernetes-list-map-keys": "Duplicate value",
}

# Another legal value for every field that a rule protects.
OTHER: Mapping[str, object] = {
    "specName": "g2.1",
    "cpu": "8",
    "memory": "32Gi",
    "gpu": 2,
    "storageClassName": "slow",
    "prepare": {"fromStorageName": "another"},
    "type": "CreateGPUUnit",
    "operationID": "stock-002",
    "requestHash": "f" * 64,
}


def every_kind(test: Any) -> Any:
    return pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)(test)


@every_kind
def test_the_cases_cover_every_constraint_found_in_the_schema(kind: Kind[Any]) -> None:
    covered = {case.constraint for case in invalid_cases(kind)} | rules(kind)
    assert covered == constraints(kind)


@every_kind
async def test_every_broken_object_is_refused_with_a_word_about_its_field(
    client: Client, namespace: str, kind: Kind[Any]
) -> None:
    objects = Objects(client, kind, namespace)
    await objects.create(as_json(COMPLETE[kind.kind]) | {"metadata": {"name": "existing"}})
    limit = asyncio.Semaphore(AT_ONCE)

    async def complaint(case: Case) -> tuple[str, str]:
        async with limit:
            word = WORDS[case.constraint.keyword]
            return str(case.constraint), await _complaint(_send(objects, case), case.field, word)

    complaints = dict(await asyncio.gather(*map(complaint, invalid_cases(kind))))
    assert {case: found for case, found in complaints.items() if found} == {}


@every_kind
async def test_a_protected_field_can_be_neither_changed_nor_removed_nor_added_later(
    client: Client, namespace: str, kind: Kind[Any]
) -> None:
    objects = Objects(client, kind, namespace)
    complete = as_json(COMPLETE[kind.kind])
    sparse = as_json(COMPLETE[kind.kind]) | {"metadata": {"name": "sparse"}}
    protected = {rule.about for rule in rules(kind)}
    optional = {field for field in protected if field not in _required(kind)}
    for field in optional:
        del sparse["spec"][field]
    await objects.create(complete)
    await objects.create(sparse)

    patches = [("complete", field, OTHER[field]) for field in protected]
    patches += [("complete", field, None) for field in optional]
    patches += [("sparse", field, OTHER[field]) for field in optional]
    for name, field, value in patches:
        change = objects.patch(name, {"spec": {field: value}}, dryRun="All")
        assert await _complaint(change, f"spec.{field}", f"{field} cannot be changed") == ""


async def _send(objects: Objects, case: Case) -> Schema:
    """As a create, or as a write to the status where a create would drop it."""
    if case.constraint.path[:1] == ("status",) and objects.kind.status_subresource:
        return await objects.patch("existing", {"status": case.document["status"]}, "/status", dryRun="All")
    return await objects.create(case.document, dryRun="All")


async def _complaint(request: Awaitable[Schema], field: str, word: str) -> str:
    """What is wrong with the server's answer: empty when it refused the request for the field, with the word."""
    try:
        await request
    except Invalid as error:
        about = [cause.message for cause in error.causes if cause.field.removeprefix(".") == field]
        return "" if any(word in message for message in about) else f"not about {field} and {word!r}: {error.message}"
    return "accepted"


def _required(kind: Kind[Any]) -> set[str]:
    return {c.about for c in constraints(kind) if c.path == ("spec",) and c.keyword == "required"}
