"""A real control plane whose garbage collector knows every built-in kind and never learns of ours.

That is how it is for half a minute after every installation; here the collector may not read our kinds, so that it
stays so for as long as the tests run.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from equipment.fake_nodes import add_fake_nodes
from equipment.fixtures import fault_proxy
from equipment.servers import ApiServer
from kube.controllers.conftest import installed, stock_namespace, world
from realkube import binaries, control_plane
from realkube.api import Access
from realkube.control_plane import ControlPlane, User

__all__ = ["fault_proxy", "installed", "stock_namespace", "world"]

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
# The collector reads single objects as itself, and follows kinds through caches that all controllers share.
CONTROLLERS = "system:kube-controller-manager"
COLLECTOR = "system:controller:generic-garbage-collector"
BUILT_IN = ["", "apps", "batch", "coordination.k8s.io", "discovery.k8s.io", "networking.k8s.io", "events.k8s.io"]


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    binaries.ensure(*control_plane.PROGRAMS)
    # With accounts of their own, the controllers of Kubernetes may do what their roles allow.
    own_accounts = ("--use-service-account-credentials=true",)
    user, folder = User(CONTROLLERS, secrets.token_urlsafe(24)), tmp_path_factory.mktemp("blind") / "plane"
    with ControlPlane(folder, controllers_as=user, controller_flags=own_accounts) as plane:
        blind(plane.admin)
        admin = plane.admin
        yield ApiServer(admin.url, admin.ca_file, admin.token, plane.kubeconfig, plane.version, "real", plane)


@pytest.fixture(scope="session")
def fake_nodes(api_server: ApiServer) -> list[str]:
    """Nodes of this control plane: the fixture of all tiers makes them once a session, on one server."""
    return add_fake_nodes(api_server, 2)


def blind(server: Access) -> None:
    """The collector may read and delete built-in kinds alone."""
    for name in (CONTROLLERS, COLLECTOR):
        role = server.request("GET", f"{ROLES}/{name}").body
        for rule in role["rules"]:
            if rule.get("apiGroups") == ["*"]:
                rule["apiGroups"] = BUILT_IN
        assert server.request("PUT", f"{ROLES}/{name}", role).status == HTTPStatus.OK
