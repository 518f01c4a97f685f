"""CustomResourceDefinitions."""

from __future__ import annotations

import re
from typing import Any

from gpu_runtime.local.apiserver.custom.cel import Rules, Unsupported
from gpu_runtime.local.apiserver.custom.values import check
from gpu_runtime.local.apiserver.errors import Cause, disallowed, duplicate, immutable, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns1035_label, dns_subdomain
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.affinity import chosen
from gpu_runtime.local.apiserver.strategy import Strategy

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_COLUMN_TYPES = ["boolean", "date", "integer", "number", "string"]


class DefinitionStrategy(Strategy):
    unconditional_update = False
    bare_finalizers = True
    rechecks_metadata = False
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
        status = obj.setdefault("status", {})
        if not status.get("storedVersions"):
            status["storedVersions"] = _storage_versions(spec)[:1]

    def prepare_create(self, obj: Object, now: str) -> None:
        super().prepare_create(obj, now)
        obj["status"] = {"storedVersions": _storage_versions(obj["spec"])[:1], "acceptedNames": {}}

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        known = new["status"]["storedVersions"]
        new["status"]["storedVersions"] = known + [
            name for name in _storage_versions(new["spec"])[:1] if name not in known
        ]

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        names = spec.get("names", {})
        causes: list[Cause] = []
        if not obj.get("status", {}).get("storedVersions"):
            causes.append(wrong("status.storedVersions", [], "must have at least one stored version"))
        wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
        if obj["metadata"].get("name") not in (None, wanted):
            text = 'must be spec.names.plural+"."+spec.group'
            causes.append(wrong("metadata.name", obj["metadata"]["name"], text))
        return causes + self._spec_causes(obj)

    def _spec_causes(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        names = spec.get("names", {})
        causes = _group(spec.get("group", ""))
        causes += (
            chosen("spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"])
            if spec.get("scope")
            else [required("spec.scope")]
        )
        causes += _versions(spec.get("versions", []))
        causes += _missing_names(names) + name_causes(names, "spec.names")
        conversion = (spec.get("conversion") or {}).get("strategy", "None")
        if conversion not in ("None", "Webhook"):
            causes.append(unsupported("spec.conversion.strategy", conversion, ["None", "Webhook"]))
        elif conversion == "Webhook":
            text = "conversion webhooks are not called by the embedded API server"
            causes.append(disallowed("spec.conversion.strategy", text))
        if spec.get("preserveUnknownFields"):
            text = "must be false in order to use defaults in the schema"
            causes += 2 * [wrong("spec.preserveUnknownFields", True, text)]
        versions = spec.get("versions", [])
        for at, version in enumerate(versions):
            causes += _version(version, f"spec.versions[{at}]", alone=len(versions) == 1)
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self._spec_causes(new)
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
        return causes + _stored_versions(new)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        return name_causes(new["status"].get("acceptedNames", {}), "status.acceptedNames")

    def ending(self, obj: Object, now: str) -> bool:
        obj["metadata"]["deletionTimestamp"] = now
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
        return True


def _storage_versions(spec: Object) -> list[str]:
    return [one.get("name", "") for one in spec.get("versions", []) if one.get("storage")]


def _stored_versions(definition: Object) -> list[Cause]:
    """A version that objects may still be stored in cannot be dropped."""
    served = {one.get("name", "") for one in definition["spec"].get("versions", [])}
    causes = []
    for at, name in enumerate(definition.get("status", {}).get("storedVersions", [])):
        if name not in served:
            until = f"until a storage migration ensures no data remains persisted in {name} and removes {name} from"
            text = f"missing from spec.versions; {name} was previously a storage version, and must remain {until}"
            causes.append(wrong(f"status.storedVersions[{at}]", name, f"{text} status.storedVersions"))
    return causes


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
        if at == 0 and name:
            causes += [wrong("spec.version", name, message) for message in dns1035_label(name)]
        if name in seen:
            causes.append(duplicate(f"spec.versions[{at}].name", name))
        seen.add(name)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(wrong("spec.versions", versions, text))
    return causes


def _missing_names(names: Object) -> list[Cause]:
    needed = ("plural", "singular", "kind", "listKind")
    return [required(f"spec.names.{field}") for field in needed if not names.get(field)]


def name_causes(names: Object, field: str) -> list[Cause]:
    """What is wrong with the names that are there."""
    causes: list[Cause] = []
    for name in ("plural", "singular"):
        if names.get(name):
            causes += [wrong(f"{field}.{name}", names[name], message) for message in dns1035_label(names[name])]
    for name in ("kind", "listKind"):
        for message in dns1035_label(names[name].lower()) if names.get(name) else ():
            text = f"may have mixed case, but should otherwise match: {message}"
            causes.append(wrong(f"{field}.{name}", names[name], text))
    for name in ("shortNames", "categories"):
        for at, one in enumerate(names.get(name, [])):
            causes += [wrong(f"{field}.{name}[{at}]", one, message) for message in dns1035_label(one)]
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        causes.append(wrong(f"{field}.listKind", names["listKind"], "kind and listKind may not be the same"))
    return causes


def _version(version: Object, field: str, *, alone: bool) -> list[Cause]:
    """One version; what a definition with one version says of it, the real server reports at the spec itself."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    inside = "spec.validation.openAPIV3Schema" if alone else f"{field}.schema.openAPIV3Schema"
    causes: list[Cause] = []
    if schema is None:
        causes.append(required(f"{field}.schema.openAPIV3Schema", "schemas are required"))
    else:
        if schema.get("type") and schema["type"] != "object":
            causes.append(wrong(f"{inside}.type", schema["type"], "must be object at the root"))
        causes += schema_causes(schema, inside, root=True)
        try:
            Rules(schema)
        except Unsupported as error:
            causes.append(disallowed(inside, str(error)))
    return causes + _columns(version, "spec" if alone else field) + _scale(version, "spec" if alone else field)


def _columns(version: Object, field: str) -> list[Cause]:
    causes = []
    for at, column in enumerate(version.get("additionalPrinterColumns", [])):
        where = f"{field}.additionalPrinterColumns[{at}]"
        if not column.get("name"):
            causes.append(required(f"{where}.name"))
        if not column.get("type"):
            causes.append(required(f"{where}.type"))
        elif column["type"] not in _COLUMN_TYPES:
            text = f"must be one of {','.join(_COLUMN_TYPES)}"
            causes.append(wrong(f"{where}.type", column["type"], text))
        if not column.get("jsonPath"):
            causes.append(required(f"{where}.JSONPath"))
    return causes


def _scale(version: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return causes
    for name, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        path = scale.get(name, "")
        where = f"{field}.subresources.scale.{name}"
        if not path:
            causes.append(required(where))
        elif not path.startswith(prefix):
            causes.append(wrong(where, path, f"should be a json path under {prefix[:-1]}"))
    return causes


def schema_causes(schema: Any, field: str, *, root: bool = False) -> list[Cause]:
    """What makes a schema not structural."""
    if not isinstance(schema, dict):
        return []
    if schema.get("$ref"):
        return [disallowed(f"{field}.$ref", "$ref is not supported")]
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
    if schema.get("default") is not None:
        causes += [cause._replace(field=f"{field}.default") for cause in check(schema["default"], schema)]
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
        items = schema.get("items")
        if not isinstance(items, dict):
            return [*causes, wrong(f"{field}.items", None, "must have a schema if x-kubernetes-list-type is map")]
        if items.get("type") != "object":
            text = "must be object if parent array's x-kubernetes-list-type is map"
            causes.append(wrong(f"{field}.items.type", items.get("type", ""), text))
        for key in keys or []:
            inside = (items.get("properties") or {}).get(key)
            if inside is None:
                text = "entries must all be names of item properties"
                causes.append(wrong(f"{field}.x-kubernetes-list-map-keys", key, text))
            elif key not in (items.get("required") or []) and inside.get("default") is None:
                text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be required"
                causes.append(required(f"{field}.items.properties[{key}].default", text))
    elif keys:
        causes.append(
            disallowed(f"{field}.x-kubernetes-list-map-keys", "may only be set if x-kubernetes-list-type is map")
        )
    return causes
