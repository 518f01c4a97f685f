"""Built-in kinds as Go reads and writes them: types checked, unknown fields found, empty fields left out or spelled.

A document is read with `read` (a wrong type is an error, nulls and empty values go away, quantities and times take
their one spelling) and, once defaulted and validated, finished with `complete` (fields that Go always writes appear).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from gpu_runtime.local.apiserver.errors import Cause, unsupported
from gpu_runtime.local.quantities import PATTERN_TEXT, NotAQuantity, canonical

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)


class WrongType(Exception):
    """The document does not fit the kind's types; the whole request is refused."""


class Reading:
    """The unknown fields that were found while one document was read."""

    __slots__ = ("owner", "unknown")

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.owner = ""


class Node:
    """Any JSON value, kept as it is."""

    __slots__ = ()
    zero: Any = None

    def read(self, value: Any, path: str, reading: Reading) -> Any:  # noqa: ARG002
        return value

    def complete(self, value: Any) -> Any:
        return value

    def is_zero(self, value: Any) -> bool:
        return value is None

    def chooses(self) -> bool:
        """Whether it contains an enum."""
        return False

    def choice_causes(self, value: Any, path: str) -> Iterator[Cause]:  # noqa: ARG002
        """Causes for enum values that their fields do not allow."""
        yield from ()


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _mismatch(value: Any, path: str, reading: Reading, wanted: str) -> WrongType:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    shown = f"number {value}" if is_number and wanted.startswith("int") else _go_type(value)
    inside = f"{reading.owner}.{path}" if path else "."
    return WrongType(f"json: cannot unmarshal {shown} into Go struct field {inside} of type {wanted}")


class Text(Node):
    __slots__ = ("choices",)
    zero = ""

    def __init__(self, choices: list[str] | None = None) -> None:
        self.choices = choices

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, str):
            raise _mismatch(value, path, reading, "string")
        return value

    def is_zero(self, value: Any) -> bool:
        return not value

    def chooses(self) -> bool:
        return bool(self.choices)

    def choice_causes(self, value: Any, path: str) -> Iterator[Cause]:
        if self.choices and value not in self.choices:
            yield unsupported(path, value, self.choices)


class Boolean(Node):
    zero = False

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, bool):
            raise _mismatch(value, path, reading, "bool")
        return value

    def is_zero(self, value: Any) -> bool:
        return not value


class Integer(Node):
    __slots__ = ("limit", "name")
    zero = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.limit = 2**31 if name == "int32" else 2**63

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, bool) or not isinstance(value, int) or not -self.limit <= value < self.limit:
            raise _mismatch(value, path, reading, self.name)
        return value

    def is_zero(self, value: Any) -> bool:
        return not value


class Number(Node):
    zero = 0

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _mismatch(value, path, reading, "float64")
        return value

    def is_zero(self, value: Any) -> bool:
        return not value


class IntOrText(Node):
    zero = 0

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise _mismatch(value, path, reading, "intstr.IntOrString")
        if isinstance(value, int) and not -(2**31) <= value < 2**31:
            raise _mismatch(value, path, reading, "int32")
        return value

    def complete(self, value: Any) -> Any:
        return 0 if value is None else value


class Amount(Node):
    """A quantity; in resource lists it has a precision of a thousandth."""

    __slots__ = ("coarse",)
    zero = "0"

    def __init__(self, *, coarse: bool = False) -> None:
        self.coarse = coarse

    def read(self, value: Any, path: str, reading: Reading) -> Any:  # noqa: ARG002
        try:
            return canonical(value, coarse=self.coarse)
        except NotAQuantity:
            raise WrongType(f"quantities must match the regular expression '{PATTERN_TEXT}'") from None

    def complete(self, value: Any) -> Any:
        return "0" if value is None else value


class Time(Node):
    """A time, to the second or to the microsecond, in UTC."""

    __slots__ = ("spec",)

    def __init__(self, spec: str) -> None:
        self.spec = spec

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, str):
            raise _mismatch(value, path, reading, "string")
        written = (_TIME if self.spec == "seconds" else _MICRO).fullmatch(value)
        try:
            found = datetime.fromisoformat(value).astimezone(UTC) if written else None
        except (ValueError, OverflowError):
            found = None
        if found is None:
            layout = "2006-01-02T15:04:05Z07:00" if self.spec == "seconds" else "2006-01-02T15:04:05.000000Z07:00"
            raise WrongType(f'parsing time "{value}" as "{layout}": cannot parse "{value}"')
        return found.isoformat(timespec=self.spec).replace("+00:00", "Z")


def _is_byte(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256


class Binary(Node):
    """Base64; Go takes a list of numbers, too."""

    zero = ""

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, list) and all(one is None or _is_byte(one) for one in value):
            return base64.b64encode(bytes(one or 0 for one in value)).decode()
        if not isinstance(value, str):
            raise _mismatch(value, path, reading, "[]uint8")
        try:
            return base64.b64encode(base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)).decode()
        except (binascii.Error, ValueError):
            raise WrongType(f"illegal base64 data at input byte 0 (at {path})") from None


class Sequence(Node):
    __slots__ = ("items",)

    def __init__(self, items: Node) -> None:
        self.items = items

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, list):
            raise _mismatch(value, path, reading, "[]")
        items = self.items
        found = []
        for at, one in enumerate(value):
            if one is None:
                found.append({} if isinstance(items, Struct) else items.zero)
            else:
                found.append(items.read(one, f"{path}[{at}]", reading))
        return found

    def complete(self, value: Any) -> Any:
        if not value:
            return None
        items = self.items
        return [items.complete(one) for one in value]

    def is_zero(self, value: Any) -> bool:
        return not value

    def chooses(self) -> bool:
        return self.items.chooses()

    def choice_causes(self, value: Any, path: str) -> Iterator[Cause]:
        for at, one in enumerate(value):
            yield from self.items.choice_causes(one, f"{path}[{at}]")


class KeptSequence(Sequence):
    """A list of a kind that is stored as JSON: an empty one is not the same as none."""

    def complete(self, value: Any) -> Any:
        return value if value == [] else super().complete(value)

    def is_zero(self, value: Any) -> bool:
        return value is None


class Mapping(Node):
    __slots__ = ("values",)

    def __init__(self, values: Node) -> None:
        self.values = values

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(value, path, reading, "map")
        values = self.values
        found = {}
        for key, one in value.items():
            if one is None:
                found[key] = {} if isinstance(values, Struct) else values.zero
            else:
                found[key] = values.read(one, f"{path}.{key}", reading)
        return found

    def complete(self, value: Any) -> Any:
        if not value:
            return None
        values = self.values
        return {key: values.complete(one) for key, one in value.items()}

    def is_zero(self, value: Any) -> bool:
        return not value


class SchemaOrOther(Node):
    """A JSON Schema, or the other form that its place allows: a list of schemas, a boolean, or names."""

    __slots__ = ("other", "schema")

    def __init__(self, schema: Node, other: str) -> None:
        self.schema = schema
        self.other = other

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, dict):
            return self.schema.read(
                value, path, Reading()
            )  # Go decodes this separately and does not report unknown fields
        if self.other == "Bool":
            if not isinstance(value, bool):
                raise WrongType("boolean or JSON schema expected")
            return value
        if not isinstance(value, list):
            return []  # Go accepts neither form
        return Sequence(self.schema if self.other == "Array" else Text()).read(value, path, reading)

    def complete(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.schema.complete(one) if isinstance(one, dict) else one for one in value] or None
        return self.schema.complete(value) if isinstance(value, dict) else value


class Field:
    """One field of a struct, when Go writes it, and how a strategic merge patch treats it."""

    __slots__ = ("always", "merge_key", "merges", "node", "number", "omit_zero", "pointer", "replaces")

    def __init__(self, node: Node, fact: str, strategy: str = "", merge_key: str = "") -> None:
        self.node = node
        self.merges = "merge" in strategy.split(",")
        self.replaces = "replace" in strategy.split(",")
        self.merge_key = merge_key
        flags, _, self.number = fact.partition(":")
        self.pointer = "p" in flags
        self.always = "r" in flags
        self.omit_zero = "z" in flags


class Struct(Node):
    """An object with known fields."""

    __slots__ = ("_choosing", "always", "fields", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._choosing: list[tuple[str, Node]] | None = None
        self.fields: dict[str, Field] = {}
        self.always: list[tuple[str, Field]] = []

    def seal(self) -> None:
        """Collects the fields that Go writes even when they are not set."""
        for name, field in self.fields.items():
            if field.pointer:
                if field.always:
                    self.always.append((name, field))
            elif field.always or (isinstance(field.node, (Struct, Time, Amount, IntOrText)) and not field.omit_zero):
                self.always.append((name, field))

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(value, path, reading, self.name)
        fields = self.fields
        found: dict[str, Any] = {}
        for key, one in value.items():
            field = fields.get(key)
            if field is None:
                reading.unknown.append(f"{path}.{key}" if path else key)
            elif one is not None:
                reading.owner = self.name
                read = field.node.read(one, f"{path}.{key}" if path else key, reading)
                if field.pointer or not (field.node.is_zero(read) or (read == {} and isinstance(field.node, Struct))):
                    found[key] = read
        return found

    def chooses(self) -> bool:
        if self._choosing is None:
            self._choosing = []  # a struct may hold itself
            self._choosing = [(key, field.node) for key, field in self.fields.items() if field.node.chooses()]
        return bool(self._choosing)

    def choice_causes(self, value: Any, path: str) -> Iterator[Cause]:
        for key, node in (self._choosing or ()) if self.chooses() else ():
            if (one := value.get(key)) is not None:
                yield from node.choice_causes(one, f"{path}.{key}" if path else key)

    def complete(self, value: Any) -> Any:
        fields = self.fields
        found: dict[str, Any] = {}
        for key, one in (value or {}).items():
            field = fields.get(key)
            if field is None or one is None:
                continue
            done = field.node.complete(one)
            if field.pointer or not (field.node.is_zero(done) or (field.omit_zero and done in ({}, None))):
                found[key] = done
        for key, field in self.always:
            if key not in found:
                found[key] = None if field.pointer else field.node.complete(field.node.zero)
        return found
