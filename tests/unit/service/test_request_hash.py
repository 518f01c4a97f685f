"""The hash of a request: the same for every spelling of one meaning, another for every other meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipment.mutation import mutant
from gpu_runtime.api.schema import Node, describe
from gpu_runtime.rest import requests
from gpu_runtime.rest.requests import CreateGPUUnit, CreateStockPool, CreateStockUnits
from gpu_runtime.service.operations.request_hash import OPERATION_ID, request_hash

POOL: dict[str, Any] = {
    "operationID": "a",
    "specName": "g1.1",
    "memory": "1Gi",
    "replicas": 1,
    "template": {"args": ["-m", ""], "envs": [{"name": "A", "value": "1"}], "ports": [{"name": "http", "port": 80}]},
}

SAME: dict[str, dict[str, Any]] = {
    "another id": {**POOL, "operationID": "b"},
    "another spelling of an amount": {**POOL, "memory": "1024Mi"},
    "bytes": {**POOL, "memory": "1073741824"},
    "a null": {**POOL, "name": None},
    "an empty text": {**POOL, "namespace": ""},
    "empty parts": {**POOL, "template": {**POOL["template"], "command": [], "readinessProbe": None}},
    "an empty value inside a list": {
        **POOL,
        "template": {**POOL["template"], "envs": [{"value": "1", "name": "A", "valueFrom": None}]},
    },
}
OTHER: dict[str, dict[str, Any]] = {
    "more memory": {**POOL, "memory": "2Gi"},
    "no memory": {key: value for key, value in POOL.items() if key != "memory"},
    "more replicas": {**POOL, "replicas": 2},
    "a default that is spelled out": {**POOL, "gpu": 0},
    "an argument less": {**POOL, "template": {**POOL["template"], "args": ["-m"]}},
    "arguments in another order": {**POOL, "template": {**POOL["template"], "args": ["", "-m"]}},
    "a value that looks like an amount": {
        **POOL,
        "template": {**POOL["template"], "envs": [{"name": "A", "value": "1.0"}]},
    },
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_another_spelling_has_the_same_hash(body: dict[str, Any]) -> None:
    assert request_hash(CreateStockPool, body) == request_hash(CreateStockPool, POOL)


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
def test_another_meaning_has_another_hash(body: dict[str, Any]) -> None:
    assert request_hash(CreateStockPool, body) != request_hash(CreateStockPool, POOL)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(("name", "image", "template", "access", "specName")), json))
def test_neither_order_nor_nulls_count(body: dict[str, Any]) -> None:
    shuffled = {"namespace": None, **dict(reversed(body.items())), "stockNamespace": ""}
    assert request_hash(CreateGPUUnit, shuffled) == request_hash(CreateGPUUnit, body)


@given(st.integers(1, 2**30))
def test_an_amount_is_what_it_amounts_to(mebibytes: int) -> None:
    one = {"specName": "a", "replicas": 1, "memory": f"{mebibytes}Mi", "cpu": f"{mebibytes}m"}
    two = {"cpu": f"{mebibytes * 1000}u", "memory": str(mebibytes * 2**20), "replicas": 1, "specName": "a"}
    assert request_hash(CreateStockUnits, one) == request_hash(CreateStockUnits, two)


def test_the_hash_does_not_change_with_the_version_of_the_program() -> None:
    """Records outlive programs: a new version must know the hashes of an old one."""
    assert request_hash(CreateStockPool, POOL) == "c8f738093f9777844abab7dbda97a5d6e1b2219e90fdb3dd4229f9d9a17838e0"


CREATES = [
    each
    for each in vars(requests).values()
    if isinstance(each, type) and issubclass(each, msgspec.Struct) and OPERATION_ID in each.__struct_fields__
]


def fields(node: Node, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Node]]:
    """Every field that a request can carry, at any depth; of a list the first entry, of a map one key."""
    if node.fields:
        for name, field in node.fields.items():
            yield from fields(field.node, (*path, name))
    elif node.items is not None:
        yield from fields(node.items, (*path, 0 if node.type == "array" else "KEY"))
    else:
        yield path, node


def carrying(path: tuple[str | int, ...], value: Any) -> Any:
    """The smallest document with this value at this place."""
    if not path:
        return value
    inner = carrying(path[1:], value)
    return [inner] if path[0] == 0 else {path[0]: inner}


def two_values(node: Node) -> tuple[Any, Any]:
    """Two values of the field that mean something different."""
    return {"boolean": (True, False), "integer": (1, 2), "number": (1.0, 2.0)}.get(node.type, ("1", "2"))


CASES = [(type_, path, node) for type_ in CREATES for path, node in fields(describe(type_)) if path != (OPERATION_ID,)]


@pytest.mark.parametrize(
    ("type_", "path", "node"), CASES, ids=[f"{each.__name__}.{'.'.join(map(str, path))}" for each, path, _ in CASES]
)
@mutant("service/operations/request_hash.py", "if name != OPERATION_ID}", 'if name not in (OPERATION_ID, "access")}')
@mutant("service/operations/request_hash.py", "if name != OPERATION_ID}", 'if name not in (OPERATION_ID, "namespace")}')
def test_every_field_of_a_request_counts(type_: type[msgspec.Struct], path: tuple[str | int, ...], node: Node) -> None:
    one, other = two_values(node)
    documents: list[dict[str, Any]] = [{}, carrying(path, one), carrying(path, other)]
    assert len({request_hash(type_, document) for document in documents}) == 3


def test_every_request_that_creates_is_walked() -> None:
    assert {each.__name__ for each in CREATES} >= {"CreateStockPool", "CreateStockUnits", "CreateGPUUnit"}
    walked = {(each.__name__, path[0]) for each, path, _ in CASES}
    for each in CREATES:
        for name in each.__struct_fields__:
            assert name == OPERATION_ID or (each.__name__, name) in walked
