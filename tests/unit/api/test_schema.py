"""The walk over Structs understands what an API may be made of, and refuses the rest."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, Struct, UnsetType, field

from gpu_runtime.api.schema import describe
from gpu_runtime.api.structural import Schema, structural


class Inner(Struct, frozen=True, omit_defaults=True):
    """What is inside."""

    level: int = 3


EMPTY = Inner()


class Example(Struct, kw_only=True):
    """One of everything.

    What follows the first paragraph is for readers of the code.
    """

    text: Annotated[str, Meta(min_length=1, max_length=5, pattern="^a", description="A text.")]
    number: Annotated[int, Meta(ge=1, le=9)] = 0
    big: int = 0
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5
    flag: bool = False
    on: bool = True
    when: datetime | None = None
    choice: Literal["B", "A"] = "B"
    words: Annotated[list[str], Meta(max_length=2)] = []
    waits: tuple[int, ...] = (2, 10)
    labels: dict[str, str] = {}
    anything: dict[str, Any] = {}
    loose: Any = None
    port: Annotated[int, Meta(ge=1)] | Annotated[str, Meta(max_length=15)] | None = None
    made: Inner = field(default_factory=Inner)
    shared: Inner = EMPTY
    maybe: Inner | None = None
    clearable: str | UnsetType | None = UNSET
    counted: Annotated[int, Meta(extra_json_schema={"default": 0})] = 0
    insisted: Annotated[str | None, Meta(extra={"required": True})] = None
    pairs: Annotated[list[Inner], Meta(extra_json_schema={"x-kubernetes-list-type": "map"})] = []


INNER: Schema = {
    "type": "object",
    "properties": {"level": {"default": 3, "type": "integer", "format": "int64"}},
}
INNER_DESCRIBED: Schema = {"description": "What is inside.", **INNER}

WANT: dict[str, Schema] = {
    "text": {"description": "A text.", "type": "string", "minLength": 1, "maxLength": 5, "pattern": "^a"},
    "number": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9},
    "big": {"type": "integer", "format": "int64"},
    "ratio": {"default": 0.5, "type": "number", "minimum": 0, "maximum": 1},
    "flag": {"type": "boolean"},
    "on": {"default": True, "type": "boolean"},
    "when": {"type": "string", "format": "date-time"},
    "choice": {"default": "B", "type": "string", "enum": ["A", "B"]},
    "words": {"type": "array", "maxItems": 2, "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
    "waits": {
        "default": [2, 10],
        "type": "array",
        "items": {"type": "integer", "format": "int64"},
        "x-kubernetes-list-type": "atomic",
    },
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "loose": {"x-kubernetes-preserve-unknown-fields": True},
    "port": {"x-kubernetes-int-or-string": True, "minimum": 1, "maxLength": 15},
    "made": {"default": {}, **INNER_DESCRIBED},
    "shared": INNER_DESCRIBED,
    "maybe": INNER_DESCRIBED,
    "clearable": {"nullable": True, "type": "string"},
    "counted": {"default": 0, "type": "integer", "format": "int64"},
    "insisted": {"type": "string"},
    "pairs": {"type": "array", "items": INNER_DESCRIBED, "x-kubernetes-list-type": "map"},
}


@pytest.mark.parametrize("name", WANT)
def test_a_field_becomes_its_schema(name: str) -> None:
    assert structural(describe(Example).fields[name].node) == WANT[name]


def test_every_field_of_the_example_is_looked_at() -> None:
    assert WANT.keys() == describe(Example).fields.keys()


def test_a_struct_lists_its_required_fields_and_its_first_paragraph() -> None:
    schema = structural(describe(Example))
    assert schema["required"] == ["insisted", "text"]
    assert schema["description"] == "One of everything."


class Endless(Struct):
    inner: list[Endless]


@pytest.mark.parametrize(
    ("api_type", "why"),
    [
        (Endless, "contains itself"),
        (Annotated[int, Meta(gt=0)], "ge and le"),
        (Literal[1, "a"], "one type"),
        (str | bool, "told apart"),
        (set[str], "no place in an API"),
        (bytes, "no place in an API"),
    ],
)
def test_what_has_no_place_in_an_api_is_refused_with_the_reason(api_type: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        describe(api_type)
