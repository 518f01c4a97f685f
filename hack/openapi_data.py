"""Takes what the embedded API server knows of the built-in kinds from a real API server.

    python hack/openapi_data.py KUBECONFIG

Writes src/gpu_runtime/local/apiserver/data/kinds.json.gz: discovery and OpenAPI v3 of the kinds that are served,
without descriptions, and what OpenAPI does not say: which fields Go's encoder leaves out when they are empty, and their
protobuf numbers (read from the k8s.io modules of the server's version in the Go module cache). Same input, same bytes.
"""

from __future__ import annotations

import gzip
import json
import re
import ssl
import subprocess
import sys
import urllib.request
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).parent.parent / "src/gpu_runtime/local/apiserver/data/kinds.json.gz"

SERVED: dict[str, list[str]] = {
    "api/v1": [
        "configmaps",
        "events",
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "resourcequotas",
        "secrets",
        "serviceaccounts",
        "services",
    ],
    "apis/apps/v1": ["deployments", "replicasets"],
    "apis/batch/v1": ["jobs"],
    "apis/networking.k8s.io/v1": ["networkpolicies"],
    "apis/discovery.k8s.io/v1": ["endpointslices"],
    "apis/coordination.k8s.io/v1": ["leases"],
    "apis/storage.k8s.io/v1": ["storageclasses"],
    "apis/scheduling.k8s.io/v1": ["priorityclasses"],
    "apis/apiextensions.k8s.io/v1": ["customresourcedefinitions"],
    "apis/rbac.authorization.k8s.io/v1": ["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
    "apis/policy/v1": ["poddisruptionbudgets"],
}
LEFT_OUT = {
    "nodes/proxy",
    "pods/attach",
    "pods/ephemeralcontainers",
    "pods/exec",
    "pods/portforward",
    "pods/proxy",
    "pods/resize",
    "serviceaccounts/token",
    "services/proxy",
}
OPTIONS = ["CreateOptions", "DeleteOptions", "Status", "WatchEvent"]

Fetch = Callable[..., Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def from_server(kubeconfig: Path) -> Fetch:
    """Reads JSON documents from the server of a kubeconfig."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context()
    if "certificate-authority" in cluster:
        context.load_verify_locations(cluster["certificate-authority"])
    else:
        context.load_verify_locations(cadata=b64decode(cluster["certificate-authority-data"]).decode())

    def fetch(path: str, accept: str = "application/json") -> Any:
        request = urllib.request.Request(cluster["server"] + path)
        request.add_header("Authorization", f"Bearer {user['token']}")
        request.add_header("Accept", accept)
        with urllib.request.urlopen(request, context=context) as answer:
            return json.load(answer)

    return fetch


def served_resources(found: list[dict[str, Any]], plurals: list[str]) -> list[dict[str, Any]]:
    """The discovery entries of the kinds and subresources that we serve."""
    kept = []
    for entry in found:
        name = entry["name"]
        if name.split("/")[0] in plurals and name not in LEFT_OUT:
            kept.append({key: value for key, value in entry.items() if key != "storageVersionHash"})
    return sorted(kept, key=lambda entry: entry["name"])


def without_descriptions(node: Any) -> Any:
    """The same document without its prose; a property that is called `description` stays."""
    if isinstance(node, list):
        return [without_descriptions(one) for one in node]
    if not isinstance(node, dict):
        return node
    found = {}
    for key, value in node.items():
        if key == "description" and isinstance(value, str):
            continue
        found[key] = without_descriptions(value)
    return found


def references(node: Any) -> set[str]:
    """The component names that a document points to."""
    if isinstance(node, list):
        return {name for one in node for name in references(one)}
    if isinstance(node, dict):
        found = {name for value in node.values() for name in references(value)}
        if isinstance(node.get("$ref"), str):
            found.add(node["$ref"].rsplit("/", 1)[1])
        return found
    return set()


def lean_operation(operation: dict[str, Any]) -> dict[str, Any]:
    """An operation with JSON as its only media type."""
    for holder in [operation.get("requestBody"), *operation.get("responses", {}).values()]:
        if holder and "content" in holder:
            media = holder["content"]
            kept = {kind: media[kind] for kind in media if kind == "application/json" or "patch+json" in kind}
            holder["content"] = kept or {"application/json": next(iter(media.values()))}
    return operation


def lean_document(document: dict[str, Any], prefix: str, plurals: list[str]) -> dict[str, Any]:
    """An OpenAPI document cut down to the paths that we serve and the schemas that they reach."""
    paths = {}
    for path, item in document["paths"].items():
        parts = path.removeprefix(f"/{prefix}/").split("/")
        if parts[0] == "watch":
            continue
        if parts[:2] == ["namespaces", "{namespace}"] and len(parts) > 2:
            parts = parts[2:]
        if parts[0] not in plurals:
            continue
        subresource = f"{parts[0]}/{parts[2]}" if len(parts) > 2 else ""
        if subresource in LEFT_OUT or len(parts) > 3:
            continue
        lean = without_descriptions(item)
        paths[path] = {verb: lean_operation(one) if isinstance(one, dict) else one for verb, one in lean.items()}
    schemas = without_descriptions(document["components"]["schemas"])
    wanted = references(paths)
    waiting = list(wanted)
    while waiting:
        for name in references(schemas[waiting.pop()]):
            if name not in wanted:
                wanted.add(name)
                waiting.append(name)
    kept = {name: schemas[name] for name in sorted(wanted)}
    return {"openapi": document["openapi"], "info": document["info"], "paths": paths, "components": {"schemas": kept}}


FIELD = re.compile(r"^\t(?:(?P<name>\w+)\s+)?(?P<type>[^\s`]+(?:\[[^`]*)?)\s+`(?P<tags>[^`]*)`")

GoField = tuple[str, str, str]
"""Go type, json options, protobuf number."""


def go_fields(source: str) -> dict[str, dict[str, GoField]]:
    """Struct name -> json name -> field; an embedded struct stands under its own type's name."""
    structs: dict[str, dict[str, GoField]] = {}
    current: dict[str, GoField] | None = None
    for line in source.splitlines():
        opened = re.match(r"^type (\w+) struct \{", line)
        if opened:
            current = structs.setdefault(opened[1], {})
        elif line.startswith("}"):
            current = None
        elif current is not None and (field := FIELD.match(line)):
            json_tag = re.search(r'json:"([^"]*)"', field["tags"])
            proto_tag = re.search(r'protobuf:"\w+,(\d+)', field["tags"])
            name, _, options = json_tag[1].partition(",") if json_tag else ("-", "", "")
            if name != "-":
                current[name or field["type"]] = (field["type"], options, proto_tag[1] if proto_tag else "")
    return structs


def go_facts(modules: Path, version: str, names: set[str]) -> dict[str, dict[str, str]]:
    """For each schema: json name -> `FLAGS:NUMBER`.

    Flags: `p` a pointer, kept when empty; `r` written even when empty; `z` a struct left out when empty. The number is
    the protobuf field's, with its parent's in front (`2.7`) where Go embeds a struct.
    """
    release = "v0" + version.removeprefix("v1")
    structs: dict[str, dict[str, dict[str, GoField]]] = {}
    facts: dict[str, dict[str, str]] = {}
    for name in sorted(names):
        package, _, kind = name.rpartition(".")
        folder = go_package(package, release, modules)
        if folder is None:
            continue
        if package not in structs:
            structs[package] = go_fields("\n".join(file.read_text() for file in sorted(folder.glob("*.go"))))
        if kind in structs[package]:
            facts[name] = field_facts(structs[package], kind, "")
    return facts


def go_package(package: str, release: str, modules: Path) -> Path | None:
    for module in ("api", "apimachinery", "apiextensions-apiserver"):
        if package.startswith(f"io.k8s.{module}."):
            inside = package.removeprefix(f"io.k8s.{module}.").replace(".", "/")
            return modules / "k8s.io" / f"{module}@{release}" / inside
    return None


def field_facts(structs: dict[str, dict[str, GoField]], kind: str, parent: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, (go_type, options, number) in structs[kind].items():
        if options.startswith("inline"):
            inlined = go_type.rpartition(".")[2]
            if inlined in structs:
                found |= field_facts(structs, inlined, f"{parent}{number}." if number else parent)
            continue
        flags = "p" if go_type.startswith("*") else ""
        flags += "" if "omitempty" in options or "omitzero" in options else "r"
        flags += "z" if "omitzero" in options else ""
        found[name] = f"{flags}:{parent}{number}" if number else f"{flags}:"
    return found


def collect(fetch: Fetch, modules: Path) -> dict[str, Any]:
    version = fetch("/version")
    resources, documents, columns = {}, {}, {}
    names: set[str] = set()
    for prefix, plurals in SERVED.items():
        resources[prefix] = served_resources(fetch(f"/{prefix}")["resources"], plurals)
        documents[prefix] = lean_document(fetch(f"/openapi/v3/{prefix}"), prefix, plurals)
        for plural in plurals:
            columns[f"{prefix}/{plural}"] = fetch(f"/{prefix}/{plural}", TABLE)["columnDefinitions"]
        names |= set(documents[prefix]["components"]["schemas"])
    facts = go_facts(modules, version["gitVersion"], names)
    found = {"version": version, "resources": resources, "documents": documents, "fields": facts}
    return {**found, "columns": columns}


def write(data: dict[str, Any], target: Path = TARGET) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    target.write_bytes(gzip.compress(text, 9, mtime=0))


def main() -> None:
    modules = subprocess.run(["go", "env", "GOMODCACHE"], check=True, capture_output=True, text=True).stdout.strip()
    write(collect(from_server(Path(sys.argv[1])), Path(modules)))


if __name__ == "__main__":
    main()
