"""The hash of a request: the same for every spelling of one meaning, another for every other meaning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.service.canonical import request_hash
from gpu_runtime.service.requests import CreateGPUUnit, CreateStockPool, CreateStockUnits

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
