"""Objects of a custom kind: how they are read, defaulted and judged."""

from __future__ import annotations

import re
from typing import Any

from gpu_runtime.local.apiserver.builtin import library
from gpu_runtime.local.apiserver.custom.cel import Rules
from gpu_runtime.local.apiserver.custom.structural import Schema, fill_defaults, prune, remove_nulls
from gpu_runtime.local.apiserver.custom.values import check, check_lists
from gpu_runtime.local.apiserver.errors import Cause, Reason
from gpu_runtime.local.apiserver.kinds import Column, Kind
from gpu_runtime.local.apiserver.schema import Reading
from gpu_runtime.local.apiserver.store import Object
from gpu_runtime.local.apiserver.strategy import Strategy

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TOP = ("apiVersion", "kind", "metadata")
_BLOCKING = {Reason.REQUIRED, Reason.TOO_LONG, Reason.TOO_MANY, Reason.TYPE_INVALID}
_NOT_CHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


class CustomFormat:
    """Documents of a custom kind: metadata has Go's types, the rest follows the structural schema."""

    def __init__(self, schema: Schema, *, keeps_unknown: bool) -> None:
        self._schema = schema
        self._keeps_unknown = keeps_unknown

    def read(self, document: Object, reading: Reading) -> Object:
        found = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
        metadata = library().named(_META)
        found["metadata"] = metadata.read(document.get("metadata") or {}, "metadata", reading)
        if not self._keeps_unknown:
            prune(found, self._schema, "", reading.unknown, top=True)
        remove_nulls(found, self._schema)
        fill_defaults(found, self._schema)
        return found

    def complete(self, obj: Object) -> Object:
        return {**obj, "metadata": library().named(_META).complete(obj["metadata"])}


class CustomStrategy(Strategy):
    """The rules that a definition gives its objects."""

    has_generation = True
    unconditional_update = False

    def __init__(self, schema: Schema, *, status: bool, fields: tuple[str, ...]) -> None:
        self._schema = schema
        self._rules = Rules(schema)
        self.has_status = status
        self.fields = fields

    def changed(self, new: Object, old: Object) -> bool:
        return _desired(new) != _desired(old)

    def prepare_status(self, new: Object, old: Object) -> None:
        status = new.get("status")
        version = new["metadata"].get("resourceVersion")
        new.clear()
        new.update({key: value for key, value in old.items() if key != "status"})
        new["metadata"] = {**old["metadata"], "resourceVersion": version}
        if status is not None:
            new["status"] = status

    def validate(self, obj: Object) -> list[Cause]:
        values = {key: value for key, value in obj.items() if key != "metadata"}
        causes = check(values, _without_metadata(self._schema)) + check_lists(values, self._schema)
        return causes + self._judged(values, None, causes)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        now = {key: value for key, value in new.items() if key != "metadata"}
        before = {key: value for key, value in old.items() if key != "metadata"}
        causes = check(now, _without_metadata(self._schema), old=before)
        if not check_lists(before, self._schema):
            causes += check_lists(now, self._schema)
        return causes + self._judged(now, before, causes)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_update(new, old)

    def _judged(self, new: Any, old: Any, causes: list[Cause]) -> list[Cause]:
        if not self._rules:
            return []
        if any(cause.reason in _BLOCKING for cause in causes):
            return [Cause(Reason.INVALID, _NOT_CHECKED, "<nil>")]
        return self._rules.check(new, old)


def _desired(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key != "metadata"}


def _without_metadata(schema: Schema) -> Schema:
    needed = [name for name in schema.get("required") or [] if name not in ("apiVersion", "kind", "metadata")]
    properties = schema.get("properties") or {}
    return {**schema, "required": needed, "properties": {k: v for k, v in properties.items() if k not in _TOP}}


def kinds_of(definition: Object) -> list[Kind]:
    """The served versions of a definition, as kinds; the storage version first among equals."""
    spec = definition["spec"]
    names = spec["names"]
    found = []
    for version in sorted(spec["versions"], key=lambda one: _priority(one["name"])):
        if not version.get("served"):
            continue
        schema: Schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        parts = version.get("subresources") or {}
        scale = parts.get("scale")
        keeps = bool(spec.get("preserveUnknownFields")) or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        found.append(
            Kind(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                singular=names.get("singular") or names["kind"].lower(),
                namespaced=spec["scope"] == "Namespaced",
                format=CustomFormat(schema, keeps_unknown=keeps),
                strategy=CustomStrategy(
                    schema,
                    status="status" in parts,
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
