"""Describes a Struct and its annotations. CRD schemas, the OpenAPI document and validation use this description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import NODEFAULT, inspect

NodeType: TypeAlias = Literal[
    "object", "map", "array", "string", "integer", "number", "boolean", "int-or-string", "any"
]
StructClass: TypeAlias = type[msgspec.Struct]
NO_DEFAULT = object()


@dataclass(frozen=True, slots=True)
class Node:
    """The allowed values of one type. Limits that do not apply are None; `extensions` are copied into the schema."""

    type: NodeType
    description: str = ""
    struct: StructClass | None = None  # of an object: its Struct
    fields: Mapping[str, Field] = field(default_factory=dict)
    items: Node | None = None  # of an array; of a map: its values
    enum: tuple[str, ...] = ()
    format: str = ""
    pattern: str = ""
    hint: str = ""  # the pattern in words
    minimum: int | float | None = None
    maximum: int | float | None = None
    min_length: int | None = None  # of a string, an array or a map
    max_length: int | None = None
    nullable: bool = False
    default: object = NO_DEFAULT
    extensions: Mapping[str, object] = field(default_factory=dict)
    check: Callable[[str], object] | None = None  # raises ValueError; a rule that must not be in the schema


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an object."""

    node: Node
    required: bool


def describe(api_type: Any) -> Node:
    """The description of a type. Raises TypeError for types that an API object cannot have."""
    return _described(api_type)


@cache
def _described(api_type: Any) -> Node:
    return _node(inspect.type_info(api_type), path=())


def _node(info: inspect.Type, path: tuple[type, ...]) -> Node:
    match info:
        case inspect.Metadata():
            return _annotated(_node(info.type, path), info)
        case inspect.StructType():
            return _struct(info, path)
        case inspect.ListType() | inspect.VarTupleType():
            return Node(
                "array", items=_node(info.item_type, path), min_length=info.min_length, max_length=info.max_length
            )
        case inspect.DictType():
            return Node(
                "map", items=_node(info.value_type, path), min_length=info.min_length, max_length=info.max_length
            )
        case inspect.StrType():
            return Node("string", pattern=info.pattern or "", min_length=info.min_length, max_length=info.max_length)
        case inspect.IntType() | inspect.FloatType():
            return _number(info)
        case inspect.BoolType():
            return Node("boolean")
        case inspect.DateTimeType():
            return Node("string", format="date-time")
        case inspect.LiteralType():
            return _literal(info)
        case inspect.UnionType():
            return _union(info, path)
        case inspect.AnyType():
            return Node("any")
    raise TypeError(
        f"{info} has no place in an API: use Structs, lists, maps, strings, numbers, booleans, literals or datetime"
    )


def _annotated(node: Node, info: inspect.Metadata) -> Node:
    """The node with everything from its Meta except the limits."""
    schema = dict(info.extra_json_schema or {})
    extra = info.extra or {}
    return replace(
        node,
        description=schema.pop("description", node.description),
        default=schema.pop("default", node.default),
        extensions={**node.extensions, **schema},
        hint=extra.get("hint", node.hint),
        check=extra.get("check", node.check),
    )


def _struct(info: inspect.StructType, path: tuple[type, ...]) -> Node:
    if info.cls in path:
        raise TypeError(f"{info.cls.__name__} contains itself: a schema of it would never end")
    fields = {field.encode_name: _field(field, (*path, info.cls)) for field in info.fields}
    return Node("object", description=(info.cls.__doc__ or "").split("\n\n")[0], struct=info.cls, fields=fields)


def _field(field: inspect.Field, path: tuple[type, ...]) -> Field:
    node = _node(field.type, path)
    unset = not field.required and field.default is NODEFAULT and field.default_factory is NODEFAULT
    if node.nullable and not field.required and not unset:
        # `T | None = None` means that the field may be absent. Only `T | None | UnsetType` tells null from absent.
        node = replace(node, nullable=False)
    if node.default is NO_DEFAULT:
        node = replace(node, default=_default(field))
    extra = field.type.extra or {} if isinstance(field.type, inspect.Metadata) else {}
    return Field(node, required=field.required or extra.get("required", False))


def _default(field: inspect.Field) -> object:
    """The default that the server sets for an absent field: none if it is empty, `{}` for a Struct with defaults."""
    if field.default_factory is not NODEFAULT:
        made = field.default_factory()
        if isinstance(made, msgspec.Struct):
            return {}
        return msgspec.to_builtins(made) if made else NO_DEFAULT
    if field.default is NODEFAULT or isinstance(field.default, msgspec.Struct) or not field.default:
        return NO_DEFAULT
    value = msgspec.to_builtins(field.default)
    return list(value) if isinstance(value, tuple) else value


def _number(info: inspect.IntType | inspect.FloatType) -> Node:
    if info.gt is not None or info.lt is not None or info.multiple_of is not None:
        raise TypeError("limit numbers with ge and le: CRD schemas and their error messages are clearest with them")
    if isinstance(info, inspect.FloatType):
        return Node("number", minimum=info.ge, maximum=info.le)
    small = info.le is not None and info.le < 2**31 and (info.ge is None or info.ge >= -(2**31))
    return Node("integer", format="int32" if small else "int64", minimum=info.ge, maximum=info.le)


def _literal(info: inspect.LiteralType) -> Node:
    texts = tuple(value for value in info.values if isinstance(value, str))
    if len(texts) == len(info.values):
        return Node("string", enum=texts)
    raise TypeError(f"a literal of {info.values} is not made of strings: a schema needs one type")


def _union(info: inspect.UnionType, path: tuple[type, ...]) -> Node:
    members = [member for member in info.types if not isinstance(member, inspect.NoneType)]
    nodes = [_node(member, path) for member in members]
    if len(nodes) == 1:
        return replace(nodes[0], nullable=len(members) < len(info.types))
    by_type = {node.type: node for node in nodes}
    if len(nodes) == 2 and by_type.keys() == {"integer", "string"}:
        number, text = by_type["integer"], by_type["string"]
        return replace(
            text,
            type="int-or-string",
            minimum=number.minimum,
            maximum=number.maximum,
            nullable=len(members) < len(info.types),
        )
    raise TypeError(
        f"a union of {', '.join(node.type for node in nodes)} cannot be told apart in a schema; integer with string can"
    )


def timestamp(text: str) -> datetime:
    """Parses a time in the wire format. Raises ValueError for other text."""
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError as error:
        raise ValueError("must be a time such as 2030-01-31T12:00:00Z") from error
