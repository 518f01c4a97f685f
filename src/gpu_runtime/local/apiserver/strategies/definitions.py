"""CustomResourceDefinitions."""

from __future__ import annotations

import re
from typing import Any

from gpu_runtime.local.apiserver.custom.cel import Rules, Unsupported
from gpu_runtime.local.apiserver.errors import Cause, disallowed, duplicate, immutable, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns1035_label, dns_subdomain
from gpu_runtime.local.apiserver.store import Object
from gpu_runtime.local.apiserver.strategies.affinity import chosen
from gpu_runtime.local.apiserver.strategy import Strategy

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_COLUMN_TYPES = ["boolean", "date", "integer", "number", "string"]


class DefinitionStrategy(Strategy):
    has_generation = True
    has_status = True
    fields = ()

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        if names.get("kind"):
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", f"{names['kind']}List")
        spec.setdefault("conversion", {"strategy": "None"})

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        stored = [one["name"] for one in obj["spec"].get("versions", []) if one.get("storage")]
        obj["status"] = {"storedVersions": stored, "acceptedNames": {}}

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        stored = [one["name"] for one in new["spec"].get("versions", []) if one.get("storage")]
        known = new.setdefault("status", {}).setdefault("storedVersions", [])
        new["status"]["storedVersions"] = known + [name for name in stored if name not in known]

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        names = spec.get("names", {})
        causes: list[Cause] = []
        wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
        if obj["metadata"].get("name") != wanted:
            text = 'must be spec.names.plural+"."+spec.group'
            causes.append(wrong("metadata.name", obj["metadata"].get("name", ""), text))
        causes += _group(spec.get("group", ""))
        causes += (
            chosen("spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"])
            if spec.get("scope")
            else [required("spec.scope")]
        )
        causes += _versions(spec.get("versions", []))
        causes += _names(names)
        for at, version in enumerate(spec.get("versions", [])):
            causes += _version(version, f"spec.versions[{at}]")
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        now, before = new["spec"], old["spec"]
        established = any(
            one["type"] == "Established" and one["status"] == "True"
            for one in old.get("status", {}).get("conditions", [])
        )
        if now.get("group") != before.get("group"):
            causes.append(immutable("spec.group", now.get("group")))
        if now.get("names", {}).get("plural") != before.get("names", {}).get("plural"):
            causes.append(immutable("spec.names.plural", now.get("names", {}).get("plural")))
        if established:
            if now.get("scope") != before.get("scope"):
                causes.append(immutable("spec.scope", now.get("scope")))
            if now.get("names", {}).get("kind") != before.get("names", {}).get("kind"):
                causes.append(immutable("spec.names.kind", now.get("names", {}).get("kind")))
        served = {one["name"] for one in now.get("versions", [])}
        for at, name in enumerate(new.get("status", {}).get("storedVersions", [])):
            if name not in served:
                text = "missing from spec.versions; "
                causes.append(
                    wrong(
                        f"status.storedVersions[{at}]",
                        name,
                        text
                        + f"{name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions",
                    )
                )
        return causes

    def ending(self, obj: Object, now: str) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            finalizers.append(CLEANUP)
        set_condition(
            obj,
            "Terminating",
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            now,
        )


def set_condition(obj: Object, kind: str, status: str, reason: str, message: str, now: str) -> None:
    """Sets a condition; its time moves only when its status does."""
    conditions = obj.setdefault("status", {}).get("conditions") or []
    old = next((one for one in conditions if one["type"] == kind), None)
    since = old["lastTransitionTime"] if old is not None and old["status"] == status else now
    new = {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new
    obj["status"]["conditions"] = conditions


def _group(group: str) -> list[Cause]:
    if not group:
        return [required("spec.group")]
    causes = [wrong("spec.group", group, message) for message in dns_subdomain(group)]
    if "." not in group:
        causes.append(wrong("spec.group", group, "should be a domain with at least one dot"))
    return causes


def _versions(versions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for at, version in enumerate(versions):
        name = version.get("name", "")
        causes += [wrong(f"spec.versions[{at}].name", name, message) for message in dns1035_label(name)]
        if name in seen:
            causes.append(duplicate(f"spec.versions[{at}].name", name))
        seen.add(name)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(wrong("spec.versions", versions, text))
    return causes


def _names(names: Object) -> list[Cause]:
    causes: list[Cause] = []
    if not names.get("plural"):
        causes.append(required("spec.names.plural"))
    for field in ("plural", "singular"):
        if names.get(field):
            causes += [wrong(f"spec.names.{field}", names[field], message) for message in dns1035_label(names[field])]
    for field in ("kind", "listKind"):
        if not names.get(field):
            causes.append(required(f"spec.names.{field}"))
        else:
            causes += [
                wrong(
                    f"spec.names.{field}", names[field], f"may have mixed case, but should otherwise match: {message}"
                )
                for message in dns1035_label(names[field].lower())
            ]
    if not names.get("singular"):
        causes.append(required("spec.names.singular"))
    for field in ("shortNames", "categories"):
        for at, name in enumerate(names.get(field, [])):
            causes += [wrong(f"spec.names.{field}[{at}]", name, message) for message in dns1035_label(name)]
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        causes.append(wrong("spec.names.listKind", names["listKind"], "kind and listKind may not be the same"))
    return causes


def _version(version: Object, field: str) -> list[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    inside = f"{field}.schema.openAPIV3Schema"
    causes: list[Cause] = []
    if schema is None:
        causes.append(required(inside, "schemas are required"))
    else:
        if schema.get("type") and schema["type"] != "object":
            causes.append(wrong(f"{inside}.type", schema["type"], "must be object at the root"))
        causes += schema_causes(schema, inside, root=True)
        try:
            Rules(schema)
        except Unsupported as error:
            causes.append(disallowed(inside, str(error)))
    for at, column in enumerate(version.get("additionalPrinterColumns", [])):
        where = f"{field}.additionalPrinterColumns[{at}]"
        if not column.get("name"):
            causes.append(required(f"{where}.name"))
        causes += (
            chosen(f"{where}.type", column.get("type", ""), _COLUMN_TYPES)
            if column.get("type")
            else [required(f"{where}.type")]
        )
        if not column.get("jsonPath"):
            causes.append(required(f"{where}.jsonPath"))
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        for name, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
            path = scale.get(name, "")
            if not path:
                causes.append(required(f"{field}.subresources.scale.{name}"))
            elif not path.startswith(prefix):
                causes.append(
                    wrong(f"{field}.subresources.scale.{name}", path, f"should be a json path under {prefix[:-1]}")
                )
    return causes


def schema_causes(schema: Any, field: str, *, root: bool = False) -> list[Cause]:
    """What makes a schema not structural."""
    if not isinstance(schema, dict):
        return []
    causes: list[Cause] = []
    kind = schema.get("type", "")
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not loose:
        causes.append(
            required(
                f"{field}.type",
                "must not be empty for specified object fields" if not root else "must not be empty at the root",
            )
        )
    elif kind and kind not in _TYPES:
        causes.append(unsupported(f"{field}.type", kind, _TYPES))
    if kind == "array" and not isinstance(schema.get("items"), dict):
        causes.append(required(f"{field}.items", "must be specified"))
    if schema.get("properties") and schema.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        causes.append(disallowed(f"{field}.additionalProperties", text))
    if schema.get("uniqueItems"):
        causes.append(
            disallowed(
                f"{field}.uniqueItems",
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            )
        )
    if schema.get("$ref"):
        causes.append(disallowed(f"{field}.$ref", "$ref is not supported"))
    pattern = schema.get("pattern")
    if pattern:
        try:
            re.compile(pattern)
        except re.error:
            causes.append(wrong(f"{field}.pattern", pattern, "must be a valid regular expression"))
    causes += _list_causes(schema, field)
    for name, inside in (schema.get("properties") or {}).items():
        if root and name in ("apiVersion", "kind", "metadata"):
            continue
        causes += schema_causes(inside, f"{field}.properties[{name}]")
    causes += schema_causes(schema.get("items"), f"{field}.items")
    return causes + schema_causes(schema.get("additionalProperties"), f"{field}.additionalProperties")


def _list_causes(schema: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if kind is not None and kind not in ("atomic", "map", "set"):
        causes.append(unsupported(f"{field}.x-kubernetes-list-type", kind, ["atomic", "map", "set"]))
    if kind == "map":
        if not keys:
            causes.append(
                required(f"{field}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
            )
        items: Any = schema.get("items") if isinstance(schema.get("items"), dict) else {}
        for at, key in enumerate(keys or []):
            inside = (items.get("properties") or {}).get(key)
            if inside is None:
                text = "entries must all be names of item properties"
                causes.append(wrong(f"{field}.x-kubernetes-list-map-keys[{at}]", key, text))
            elif key not in (items.get("required") or []) and inside.get("default") is None:
                text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
                causes.append(required(f"{field}.items.properties[{key}].default", text))
    elif keys:
        causes.append(
            disallowed(f"{field}.x-kubernetes-list-map-keys", "may only be set if x-kubernetes-list-type is map")
        )
    return causes
