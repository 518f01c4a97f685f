"""CustomResourceDefinitions."""

from __future__ import annotations

import re

from gpu_runtime.local.apiserver.custom import formats
from gpu_runtime.local.apiserver.custom.structure import children
from gpu_runtime.local.apiserver.errors import Cause, disallowed, immutable, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns1035_label, dns_subdomain
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.affinity import chosen
from gpu_runtime.local.apiserver.strategies.definition_versions import version_causes
from gpu_runtime.local.apiserver.strategy import Strategy

_APPROVED = "api-approved.kubernetes.io"
_WHERE = "https://github.com/kubernetes/enhancements/pull/1111"
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
        causes = _stored_versions(obj) + _approval(obj, None)
        for name in ("generateName", "name"):
            if meta.get(name, wanted) != wanted:
                causes.append(wrong(f"metadata.{name}", meta[name], 'must be spec.names.plural+"."+spec.group'))
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
        conversion = spec["conversion"].get("strategy", "")
        if not conversion:
            causes.append(required("spec.conversion.strategy"))
        elif conversion not in ("None", "Webhook"):
            causes.append(unsupported("spec.conversion.strategy", conversion, ["None", "Webhook"]))
        elif conversion == "Webhook":
            text = "conversion webhooks are not called by the embedded API server"
            causes.append(disallowed("spec.conversion.strategy", text))
        if spec.get("preserveUnknownFields"):
            text = "must be false in order to use defaults in the schema"
            causes += 2 * [wrong("spec.preserveUnknownFields", True, text)]
        return causes + version_causes(spec)

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
        return causes + _stored_versions(new) + _approval(new, old)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        return name_causes(new["status"].get("acceptedNames", {}), "status.acceptedNames")

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        before = _unknown_formats(old) if old is not None else set()
        return [f'unrecognized format "{name}"' for name in sorted(_unknown_formats(new) - before)]

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


def _unknown_formats(definition: Object) -> set[str]:
    found = set()
    schemas = [(one.get("schema") or {}).get("openAPIV3Schema") or {} for one in definition["spec"]["versions"]]
    while schemas:
        schema = schemas.pop()
        if schema.get("type") == "string" and schema.get("format") and formats.known(schema) is None:
            found.add(schema["format"])
        schemas += [inside for _, inside, _ in children(schema, "")]
    return found


def _storage_versions(spec: Object) -> list[str]:
    return [one.get("name", "") for one in spec.get("versions", []) if one.get("storage")]


def _stored_versions(definition: Object) -> list[Cause]:
    """The stored version is known, and one that objects may still be stored in cannot be dropped."""
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


def _approval(new: Object, old: Object | None) -> list[Cause]:
    """Groups of the Kubernetes community are defined with its approval, or without on purpose."""
    group, found = new["spec"].get("group", ""), new["metadata"].get("annotations", {}).get(_APPROVED, "")
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    if old is not None and old["metadata"].get("annotations", {}).get(_APPROVED, "") == found:
        return []
    text = f'protected groups must have approval annotation "{_APPROVED}", see {_WHERE}'
    if not found:
        return [required(f"metadata.annotations[{_APPROVED}]", text)]
    return [] if re.match(r"unapproved|\w+://\S", found) else [wrong(f"metadata.annotations[{_APPROVED}]", found, text)]


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


def _group(group: str) -> list[Cause]:
    if not group:
        return [required("spec.group")]
    causes = [wrong("spec.group", group, message) for message in dns_subdomain(group)]
    if "." not in group:
        causes.append(wrong("spec.group", group, "should be a domain with at least one dot"))
    return causes


def _versions(versions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    for at, version in enumerate(versions):
        name = version.get("name", "")
        causes += [wrong(f"spec.versions[{at}].name", name, message) for message in dns1035_label(name)]
        if at == 0 and name:
            causes += [wrong("spec.version", name, message) for message in dns1035_label(name)]
    if len({version.get("name", "") for version in versions}) < len(versions):
        causes.append(wrong("spec.versions", versions, "must contain unique version names"))
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
