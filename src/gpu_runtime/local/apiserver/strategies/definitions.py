"""CustomResourceDefinitions."""

from __future__ import annotations

from gpu_runtime.local.apiserver.custom.schema_rules import schema_causes
from gpu_runtime.local.apiserver.errors import Cause, disallowed, immutable, required, wrong
from gpu_runtime.local.apiserver.names import dns1035_label, dns_subdomain
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.affinity import chosen
from gpu_runtime.local.apiserver.strategy import Strategy

_COLUMN_TYPES = ["boolean", "date", "integer", "number", "string"]
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


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
        spec, meta = obj["spec"], obj["metadata"]
        wanted = f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}"
        causes = _stored_versions(obj)
        if meta.get("name", wanted) != wanted:
            causes.append(wrong("metadata.name", meta["name"], 'must be spec.names.plural+"."+spec.group'))
        return causes + self._spec_causes(obj)

    def _spec_causes(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = [
            wrong("spec.group", spec.get("group", ""), message) for message in dns_subdomain(spec.get("group", ""))
        ]
        causes += chosen("spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"])
        causes += _name_causes(spec.get("names", {}))
        if spec["conversion"].get("strategy") != "None":
            text = "conversion webhooks are not called by the embedded API server"
            causes.append(disallowed("spec.conversion.strategy", text))
        if len(_storage_versions(spec)) != 1:
            text = "must have exactly one version marked as storage version"
            causes.append(wrong("spec.versions", spec.get("versions"), text))
        for at, version in enumerate(spec.get("versions", [])):
            causes += _version_causes(version, f"spec.versions[{at}]")
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self._spec_causes(new)
        now, before = new["spec"], old["spec"]
        if now.get("group") != before.get("group"):
            causes.append(immutable("spec.group", now.get("group")))
        if now.get("names", {}).get("plural") != before.get("names", {}).get("plural"):
            causes.append(immutable("spec.names.plural", now.get("names", {}).get("plural")))
        if is_established(old):
            if now.get("scope") != before.get("scope"):
                causes.append(immutable("spec.scope", now.get("scope")))
            if now.get("names", {}).get("kind") != before.get("names", {}).get("kind"):
                causes.append(immutable("spec.names.kind", now.get("names", {}).get("kind")))
        return causes + _stored_versions(new)

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
    """Requires a known storage version, and keeps every version in which objects may still be stored."""
    known = definition["status"]["storedVersions"]
    if not known:
        return [wrong("status.storedVersions", [], "must have at least one stored version")]
    causes = [
        wrong("status.storedVersions", known, f"must have the storage version {name}")
        for name in _storage_versions(definition["spec"])
        if name not in known
    ]
    served = {one.get("name", "") for one in definition["spec"].get("versions", [])}
    for at, name in enumerate(known):
        if name not in served:
            until = f"until a storage migration ensures no data remains persisted in {name} and removes {name} from"
            text = f"missing from spec.versions; {name} was previously a storage version, and must remain {until}"
            causes.append(wrong(f"status.storedVersions[{at}]", name, f"{text} status.storedVersions"))
    return causes


def is_established(definition: Object) -> bool:
    conditions = definition["status"].get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


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


def _version_causes(version: Object, field: str) -> list[Cause]:
    name, schema = version.get("name", ""), (version.get("schema") or {}).get("openAPIV3Schema")
    causes = [wrong(f"{field}.name", name, message) for message in dns1035_label(name)]
    where = f"{field}.schema.openAPIV3Schema"
    causes += [required(where, "schemas are required")] if schema is None else schema_causes(schema, where)
    for at, column in enumerate(version.get("additionalPrinterColumns", [])):
        inside = f"{field}.additionalPrinterColumns[{at}]"
        causes += [required(f"{inside}.{name}") for name in ("name", "jsonPath") if not column.get(name)]
        causes += chosen(f"{inside}.type", column.get("type", ""), _COLUMN_TYPES)
    scale = (version.get("subresources") or {}).get("scale")
    needed = ("specReplicasPath", "statusReplicasPath") if scale is not None else ()
    return causes + [required(f"{field}.subresources.scale.{one}") for one in needed if not (scale or {}).get(one)]


def _name_causes(names: Object) -> list[Cause]:
    causes = []
    for name in ("plural", "singular", "kind", "listKind"):
        given = names.get(name, "")
        causes += [wrong(f"spec.names.{name}", given, message) for message in dns1035_label(given.lower())]
    return causes
