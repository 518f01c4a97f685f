"""Discovery: which groups, versions and kinds are served."""

from __future__ import annotations

from typing import Any

from gpu_runtime.local.apiserver.builtin import data
from gpu_runtime.local.apiserver.kinds import Kind, Registry


def core_versions(address: str) -> dict[str, Any]:
    servers = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": servers}


def group_list(registry: Registry) -> dict[str, Any]:
    groups = [_group(registry, group) for group in registry.groups() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def one_group(registry: Registry, group: str) -> dict[str, Any] | None:
    if not group or group not in registry.groups():
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}


def _group(registry: Registry, group: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{group}/{one}", "version": one} for one in registry.versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def resource_list(registry: Registry, group: str, version: str) -> dict[str, Any] | None:
    kinds = registry.of(group, version)
    if not kinds:
        return None
    api_version = f"{group}/{version}" if group else version
    found: dict[str, Any] = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version}
    if not group:
        del found["apiVersion"]
    found["resources"] = [entry for kind in kinds for entry in _entries(kind)]
    return found


def _entries(kind: Kind) -> list[dict[str, Any]]:
    if not kind.custom:
        prefix = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
        known: list[dict[str, Any]] = data()["resources"][prefix]
        return [one for one in known if one["name"].split("/")[0] == kind.plural]
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    found = [entry]
    part = {"singularName": "", "namespaced": kind.namespaced, "verbs": ["get", "patch", "update"]}
    if "status" in kind.subresources:
        found.append({"name": f"{kind.plural}/status", **part, "kind": kind.kind})
    if "scale" in kind.subresources:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        found.append({"name": f"{kind.plural}/scale", **part, **scale})
    return found
