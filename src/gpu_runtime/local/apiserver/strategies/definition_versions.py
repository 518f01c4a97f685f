"""The versions of a definition: schemas, subresources, columns and what can be selected by."""

from __future__ import annotations

from collections.abc import Callable

from gpu_runtime.local.apiserver.custom.schema_rules import leads_to, schema_causes
from gpu_runtime.local.apiserver.errors import Cause, duplicate, required, wrong
from gpu_runtime.local.apiserver.records import Object

_COLUMN_FORMATS = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"]
_COLUMN_TYPES = ["boolean", "date", "integer", "number", "string"]


def version_causes(spec: Object) -> list[Cause]:
    """Schemas, subresources and columns; what all versions say alike, the real server reports at the spec itself."""
    versions = spec.get("versions", [])
    causes = [
        required(f"spec.versions[{at}].schema.openAPIV3Schema", "schemas are required")
        for at, version in enumerate(versions)
        if _schema(version) is None
    ]
    alike = {name: all(one.get(name) == versions[0].get(name) for one in versions) for name in ("schema", *_JUDGES)}
    for at, version in enumerate(versions):
        where = f"spec.versions[{at}]"
        causes += _deprecation(version, where)
        schema = _schema(version)
        if schema is not None and not (alike["schema"] and at):
            status = (version.get("subresources") or {}).get("status") is not None
            field = "spec.validation" if alike["schema"] else f"{where}.schema"
            causes += schema_causes(schema, f"{field}.openAPIV3Schema", status=status)
        for name, judge in _JUDGES.items():
            if not (alike[name] and at):
                causes += judge(version, f"{'spec' if alike[name] else where}.{name}")
    return causes


def _schema(version: Object) -> Object | None:
    found: Object | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return found


def _deprecation(version: Object, field: str) -> list[Cause]:
    text = version.get("deprecationWarning")
    if text is None:
        return []
    if not version.get("deprecated"):
        return [wrong(f"{field}.deprecationWarning", text, "can only be set for deprecated versions")]
    fine = 0 < len(text.encode()) <= 256 and text.isprintable()
    return [] if fine else [wrong(f"{field}.deprecationWarning", text, "must be 1 to 256 printable characters")]


def _columns(version: Object, field: str) -> list[Cause]:
    causes = []
    for at, column in enumerate(version.get("additionalPrinterColumns", [])):
        where = f"{field}[{at}]"
        if not column.get("name"):
            causes.append(required(f"{where}.name"))
        if not column.get("type"):
            causes.append(required(f"{where}.type"))
        elif column["type"] not in _COLUMN_TYPES:
            causes.append(wrong(f"{where}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}"))
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            causes.append(wrong(f"{where}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}"))
        if not column.get("jsonPath"):
            causes.append(required(f"{where}.JSONPath"))
        elif not column["jsonPath"].startswith("."):
            causes.append(wrong(f"{where}.JSONPath", column["jsonPath"], "must be a simple json path starting with ."))
    return causes


def _scale(version: Object, field: str) -> list[Cause]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return []
    causes = []
    for name, under in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        path = scale.get(name, "")
        if path and not path.startswith(under):
            text = f"should be a json path under {' or '.join(one[:-1] for one in under)}"
            causes.append(wrong(f"{field}.scale.{name}", path, text))
        elif not path and name != "labelSelectorPath":
            causes.append(required(f"{field}.scale.{name}"))
    return causes


def _selectable(version: Object, field: str) -> list[Cause]:
    causes = []
    seen: list[str] = []
    schema = _schema(version)
    for at, one in enumerate(version.get("selectableFields", []) if schema is not None else []):
        where, path = f"{field}[{at}].jsonPath", one.get("jsonPath", "")
        found = leads_to(schema or {}, path)
        if not path:
            causes.append(required(where))
            continue
        if found is None or not path.startswith("."):
            causes.append(wrong(where, path, "is an invalid path"))
            continue
        if path.startswith(".metadata") or found.get("type") not in ("string", "boolean", "integer"):
            causes.append(wrong(where, path, "must point to a field of type string, boolean or integer"))
        if path in seen:
            causes.append(duplicate(where, path))
        seen.append(path)
    return causes


_JUDGES: dict[str, Callable[[Object, str], list[Cause]]] = {
    "subresources": _scale,
    "additionalPrinterColumns": _columns,
    "selectableFields": _selectable,
}
