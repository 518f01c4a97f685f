"""Objects of a custom kind: how they are read, defaulted and validated."""

from __future__ import annotations

import re
from typing import Any

from gpu_runtime.local.apiserver.builtin import library
from gpu_runtime.local.apiserver.custom.immutability import Rules
from gpu_runtime.local.apiserver.custom.structural import Schema, as_go_writes, fill_defaults, prune, remove_nulls
from gpu_runtime.local.apiserver.custom.values import check, check_lists
from gpu_runtime.local.apiserver.errors import Cause, Reason, required, wrong
from gpu_runtime.local.apiserver.kinds import Column, Kind
from gpu_runtime.local.apiserver.records import Object, same
from gpu_runtime.local.apiserver.schema import Reading
from gpu_runtime.local.apiserver.strategy import Strategy

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TOP = ("apiVersion", "kind", "metadata")
_BLOCKING = {Reason.REQUIRED, Reason.TOO_LONG, Reason.TOO_MANY, Reason.TYPE_INVALID, Reason.NOT_SUPPORTED}
_NOT_CHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


class CustomFormat:
    """Documents of a custom kind: metadata has Go's types, the rest follows the structural schema."""

    def __init__(self, kind: str, api_version: str, schemas: dict[str, Schema], stored: Schema, since: int) -> None:
        self._own = {"kind": kind, "apiVersion": api_version}
        self._schemas = schemas
        self._schema = schemas[api_version.rpartition("/")[2]]
        self._stored = stored
        self._one_schema = all(schema == stored for schema in schemas.values())
        self._since = since
        """The version of the definition. Older objects may have been stored under another schema."""

    def read(self, document: Object, reading: Reading) -> Object:
        """Removes kind and version if they are right. Wrong ones stay, and the strategy refuses them."""
        stated = {key: document.get(key, own) for key, own in self._own.items()}
        found = {key: value for key, value in document.items() if key not in stated or stated != self._own}
        metadata = {} if document.get("metadata") is None else document["metadata"]
        found["metadata"] = library().named(_META).read(metadata, "metadata", reading)
        group, _, version = stated["apiVersion"].rpartition("/")
        if stated["kind"] != self._own["kind"] or group != self._own["apiVersion"].rpartition("/")[0]:
            return found
        return _shaped(found, self._schemas.get(version, {}), reading.unknown)

    def complete(self, obj: Object) -> Object:
        return {**as_go_writes(obj), "metadata": library().named(_META).complete(obj["metadata"])}

    def stands(self, version: int) -> bool:
        return self._one_schema and version > self._since

    def view(self, obj: Object) -> Object:
        """The object by the storage version's schema, without the fields that this version does not know."""
        _shaped(obj, self._stored, [])
        prune(obj, self._schema, "", [], top=True)
        return obj

    def restored(self, obj: Object) -> Object:
        return obj

    def choice_causes(self, obj: Object) -> list[Cause]:  # noqa: ARG002
        return []


def _shaped(obj: Object, schema: Schema, unknown: list[str]) -> Object:
    prune(obj, schema, "", unknown, top=True)
    remove_nulls(obj, schema)
    fill_defaults(obj, schema)
    return obj


class CustomStrategy(Strategy):
    """The rules that a definition gives its objects."""

    has_generation = True
    unconditional_update = False
    bare_finalizers = True
    rechecks_metadata = False

    def __init__(
        self,
        kind: str,
        api_version: str,
        schema: Schema,
        *,
        status: bool,
        fields: tuple[str, ...],
        scale: dict[str, str] | None = None,
    ) -> None:
        self._own = {"kind": kind, "apiVersion": api_version}
        self._schema = schema
        self._scale = scale or {}
        self._rules = Rules(schema)
        self.has_status = status
        self.fields = fields

    def changed(self, new: Object, old: Object) -> bool:
        return not same(_values(new), _values(old))

    def prepare_status(self, new: Object, old: Object, now: str) -> None:  # noqa: ARG002
        status = new.get("status")
        version = new["metadata"].get("resourceVersion")
        new.clear()
        new.update({key: value for key, value in old.items() if key != "status"})
        new["metadata"] = {**old["metadata"], "resourceVersion": version}
        if status is not None:
            new["status"] = status

    def validate(self, obj: Object) -> list[Cause]:
        values = _values(obj)
        causes = self._type_causes(obj)
        unnamed = [required("metadata.name")] if not causes and not obj["metadata"].get("name") else []
        if not causes:
            causes = check(values, _without_metadata(self._schema)) + scale_causes(values, self._scale)
            causes += _name_causes(obj["metadata"], self._schema)
        causes += check_lists(values, self._schema)
        return causes + self._judged(values, None, causes + unnamed)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        now, before = _values(new), _values(old)
        causes = self._type_causes(new)
        if not causes:
            causes = check(now, _without_metadata(self._schema), old=before) + scale_causes(now, self._scale)
        if not check_lists(before, self._schema):
            causes += check_lists(now, self._schema)
        return causes + self._judged(now, before, causes)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_update(new, old)

    def _type_causes(self, obj: Object) -> list[Cause]:
        return [
            wrong(key, obj[key], f"must be {own}") for key, own in self._own.items() if key in obj and obj[key] != own
        ]

    def _judged(self, new: Any, old: Any, causes: list[Cause]) -> list[Cause]:
        if not self._rules:
            return []
        if any(cause.reason in _BLOCKING for cause in causes):
            return [Cause(Reason.INVALID, _NOT_CHECKED, "<nil>")]
        return self._rules.check(new, old)


def _name_causes(metadata: Object, schema: Schema) -> list[Cause]:
    """A definition may limit the names of its objects, and nothing else of their metadata."""
    limits = ((schema.get("properties") or {}).get("metadata") or {}).get("properties") or {}
    names = {key: metadata[key] for key in ("name", "generateName") if key in limits and metadata.get(key)}
    return check(names, {"properties": limits}, ".metadata")


def scale_causes(values: Any, paths: dict[str, str]) -> list[Cause]:
    """Causes for values that the scale subresource could not read."""
    causes = []
    for name, wanted in (("specReplicasPath", int), ("statusReplicasPath", int), ("labelSelectorPath", str)):
        path = paths.get(name, "")
        found: Any = values
        for part in path.strip(".").split(".") if path else []:
            if found is None:
                break
            if not isinstance(found, dict):
                causes.append(wrong(path, 0, f"{path} accessor error: not an object"))
                found = None
                break
            found = found.get(part)
        if not path or found is None:
            continue
        if not isinstance(found, wanted) or isinstance(found, bool):
            expected = "int64" if wanted is int else "string"
            text = f"{path} accessor error: {found} is of the type {_go_type(found)}, expected {expected}"
            causes.append(wrong(path, 0, text))
        elif isinstance(found, int) and not 0 <= found < 2**31:
            causes.append(wrong(path, found, "should be a non-negative integer"))
    return causes


def _go_type(value: Any) -> str:
    names = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")


def _values(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in _TOP}


def _without_metadata(schema: Schema) -> Schema:
    needed = [name for name in schema.get("required") or [] if name not in ("apiVersion", "kind", "metadata")]
    properties = schema.get("properties") or {}
    return {**schema, "required": needed, "properties": {k: v for k, v in properties.items() if k not in _TOP}}


def kinds_of(definition: Object) -> list[Kind]:
    """The served versions of a definition, as kinds; the storage version first among equals."""
    spec = definition["spec"]
    names = spec["names"]
    schemas: dict[str, Schema] = {
        one["name"]: (one.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"} for one in spec["versions"]
    }
    stored = next(one["name"] for one in spec["versions"] if one.get("storage"))
    since = int(definition["metadata"].get("resourceVersion", 0))
    found = []
    for version in sorted(spec["versions"], key=lambda one: _priority(one["name"])):
        if not version.get("served"):
            continue
        schema = schemas[version["name"]]
        own = (names["kind"], f"{spec['group']}/{version['name']}")
        parts = version.get("subresources") or {}
        scale = parts.get("scale")
        found.append(
            Kind(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                singular=names.get("singular") or names["kind"].lower(),
                namespaced=spec["scope"] == "Namespaced",
                format=CustomFormat(*own, schemas, schemas[stored], since),
                strategy=CustomStrategy(
                    *own,
                    schema,
                    status="status" in parts,
                    scale=scale,
                    fields=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
                ),
                list_kind=names.get("listKind") or f"{names['kind']}List",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=frozenset(part for part in ("status", "scale") if parts.get(part) is not None),
                verbs=("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
                custom=True,
                columns=tuple(_column(one) for one in version.get("additionalPrinterColumns") or ()),
                scale=scale,
                schema=schema,
            )
        )
    return found


def _column(raw: dict[str, Any]) -> Column:
    return Column(
        raw["name"],
        raw["type"],
        raw["jsonPath"],
        raw.get("format", ""),
        raw.get("description", ""),
        raw.get("priority", 0),
    )


def _priority(version: str) -> tuple[int, int, int, str]:
    """GA before beta before alpha, newer before older, anything else after them by name."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if found is None:
        return 3, 0, 0, version
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return stage, -int(found[1]), -int(found[3] or 0), version
