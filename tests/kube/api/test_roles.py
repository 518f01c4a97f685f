"""The generated roles let people do what they say, and no more."""

from __future__ import annotations

import json

import pytest

from equipment.servers import ApiServer
from gpu_runtime.api.rbac import LEADER_ELECTION_LEASE
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from kube.api.paths import CONFIG


@pytest.fixture(scope="session")
def roles(crds: ApiServer) -> ApiServer:
    """The server with our roles."""
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
    crds.kubectl("apply", "-f", "-", input=json.dumps(home))
    crds.kubectl("apply", "-k", str(CONFIG / "rbac"))
    return crds


def may(server: ApiServer, user: str, namespace: str, verb: str, *what: str) -> bool:
    asked = server.kubectl("auth", "can-i", verb, *what, "-n", namespace, "--as", user, check=False)
    return asked.stdout.strip() == "yes"


@pytest.mark.parametrize(
    ("role", "read", "write", "everything"),
    [("viewer", True, False, False), ("editor", True, True, False), ("admin", True, True, True)],
)
def test_a_role_allows_what_its_name_says(
    roles: ApiServer, namespace: str, role: str, read: bool, write: bool, everything: bool
) -> None:
    bind = ("--clusterrole", f"gpu-runtime-stockpool-{role}", "--user", role)
    roles.kubectl("create", "rolebinding", role, "-n", namespace, *bind)
    assert may(roles, role, namespace, "list", "stockpools") == read
    assert may(roles, role, namespace, "get", "stockpools", "--subresource=status") == read
    assert may(roles, role, namespace, "create", "stockpools") == write
    assert may(roles, role, namespace, "update", "stockpools", "--subresource=scale") == write
    assert may(roles, role, namespace, "deletecollection", "stockpools") == everything
    assert not may(roles, role, namespace, "update", "stockpools", "--subresource=status")
    assert not may(roles, role, namespace, "list", "gpuunits")
    assert not may(roles, role, "default", "list", "stockpools")


def test_leader_election_may_touch_its_own_lease_only(roles: ApiServer, namespace: str) -> None:
    user = f"elector-{namespace}"
    bind = ("--role", "gpu-runtime-leader-election", "--user", user)
    roles.kubectl("create", "rolebinding", user, "-n", SYSTEM_NAMESPACE, *bind)
    try:
        assert may(roles, user, SYSTEM_NAMESPACE, "create", "leases")
        assert may(roles, user, SYSTEM_NAMESPACE, "update", f"leases/{LEADER_ELECTION_LEASE}")
        assert not may(roles, user, SYSTEM_NAMESPACE, "update", "leases/another")
        assert not may(roles, user, namespace, "create", "leases")
    finally:
        roles.kubectl("delete", "rolebinding", user, "-n", SYSTEM_NAMESPACE)
