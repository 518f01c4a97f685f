"""Discovery: whatever the embedded server says it serves, it describes as the real one does."""

from __future__ import annotations

import json

from equipment.servers import ApiServer
from kube.differential.call import Json
from kube.differential.running import Pair

UNCOMPARED = {"storageVersionHash"}


def group_versions(server: ApiServer) -> list[str]:
    groups = server.request("GET", "/apis").body["groups"]
    served = [version["groupVersion"] for group in groups for version in group["versions"]]
    return ["/api/v1", *(f"/apis/{each}" for each in served if not each.split("/")[0].endswith(".example.com"))]


def resources(server: ApiServer, path: str) -> dict[str, Json]:
    found = server.request("GET", path).body["resources"]
    return {each["name"]: {key: value for key, value in each.items() if key not in UNCOMPARED} for each in found}


def test_every_resource_is_described_as_the_real_server_does(pair: Pair, scene: list[str]) -> None:
    for path in group_versions(pair.right):
        real = resources(pair.left, path)
        for name, resource in resources(pair.right, path).items():
            assert resource == real[name], f"{path} {name}"


def test_every_group_is_described_as_the_real_server_does(pair: Pair, scene: list[str]) -> None:
    real = {group["name"]: group for group in pair.left.request("GET", "/apis").body["groups"]}
    for group in pair.right.request("GET", "/apis").body["groups"]:
        if not group["name"].endswith(".example.com"):
            described = pair.left.request("GET", f"/apis/{group['name']}").body
            assert group["preferredVersion"] == real[group["name"]]["preferredVersion"]
            assert set(pair.right.request("GET", f"/apis/{group['name']}").body) == set(described)
    assert pair.right.request("GET", "/api").body["versions"] == ["v1"]


def document(server: ApiServer, path: str) -> Json:
    """A document that the real server sends as text."""
    body = server.request("GET", path).body
    return json.loads(body) if isinstance(body, str) else body


def test_the_openapi_paths_are_those_of_the_real_server(pair: Pair, scene: list[str]) -> None:
    real, ours = (document(server, "/openapi/v3")["paths"] for server in (pair.left, pair.right))
    assert not {name for name in ours if ".example.com" not in name} - set(real)
    for path in ("api/v1", "apis/apps/v1", "apis/batch/v1"):
        theirs = document(pair.left, real[path]["serverRelativeURL"])
        assert set(document(pair.right, ours[path]["serverRelativeURL"])["paths"]) <= set(theirs["paths"])


def test_the_version_is_a_version_that_kubectl_reads(pair: Pair) -> None:
    real, ours = (server.request("GET", "/version").body for server in (pair.left, pair.right))
    assert (ours["major"], ours["minor"]) == (real["major"], real["minor"])
    assert set(ours) <= set(real)
