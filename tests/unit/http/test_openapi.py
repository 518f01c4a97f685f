"""The OpenAPI document describes what is served."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpu_runtime.http.openapi import document, text
from gpu_runtime.http.route import AnyRoute
from gpu_runtime.http.routes import ROUTES
from gpu_runtime.rest.request_validation import parse

COMMITTED = Path(__file__).resolve().parents[3] / "docs" / "openapi.json"


def test_the_committed_document_is_the_one_that_is_served() -> None:
    assert COMMITTED.read_text() == text(), "run `make swagger` and commit the result"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_described_with_its_answers_and_errors(route: AnyRoute) -> None:
    operation = document()["paths"]["/api/v1" + route.path][route.method.lower()]
    assert {str(answer.status) for answer in route.answers} <= operation["responses"].keys()
    assert {str(status) for status in route.errors} <= operation["responses"].keys()
    assert operation["summary"]


@pytest.mark.parametrize("route", [each for each in ROUTES if each.example], ids=lambda route: route.path)
def test_every_example_is_a_valid_request(route: AnyRoute) -> None:
    parse(route.body, dict(route.example or {}), partial=route.partial)


def test_every_reference_leads_somewhere() -> None:
    described = document()
    schemas = described["components"]["schemas"]

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                assert value["$ref"].removeprefix("#/components/schemas/") in schemas
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(described)


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for path in document()["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))


def test_the_document_is_the_same_each_time() -> None:
    assert msgspec.json.encode(document()) == msgspec.json.encode(document())


def test_two_structs_of_one_name_are_refused_instead_of_sharing_a_schema() -> None:
    other = msgspec.defstruct("UnitView", [("something", str)], module="elsewhere")
    route = next(route for route in ROUTES if route.path == "/gpu-units/{name}" and route.method == "GET")
    changed = replace(route, path="/elsewhere", answers=(replace(route.answers[0], data=other),))
    with pytest.raises(TypeError, match=r"two Structs .* are called UnitView, in elsewhere and gpu_runtime.rest.views"):
        document([route, changed])
