"""The control plane that the other tests stand on keeps what it promises."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

from equipment.servers import ApiServer, fresh_namespace
from equipment.waiting import eventually_sync
from realkube.binaries import KUBERNETES
from realkube.control_plane import ControlPlane, User

PLANE_OF_A_CHILD = """
import sys
from pathlib import Path
from realkube.control_plane import ControlPlane
plane = ControlPlane(Path(sys.argv[1]))
plane.start()
print(*plane.process_ids(), flush=True)
sys.stdin.read()
"""


def deployment(name: str, replicas: int, gpus: int) -> str:
    """A Deployment whose pods ask for GPUs; no fake node ever pulls the image."""
    limits = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
    }
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


def test_the_server_is_of_the_pinned_version_and_kubectl_works(api_server: ApiServer) -> None:
    assert api_server.version == KUBERNETES
    assert "default" in api_server.kubectl("get", "namespaces", "-o", "name").stdout


def test_a_deployment_becomes_available_on_fake_nodes(
    api_server: ApiServer, namespace: str, fake_nodes: list[str]
) -> None:
    api_server.kubectl("apply", "-n", namespace, "-f", "-", input=deployment("fits", replicas=2, gpus=8))

    api_server.kubectl("wait", "-n", namespace, "deployment/fits", "--for=condition=Available", "--timeout=60s")

    nodes = api_server.kubectl("get", "pods", "-n", namespace, "-o", "jsonpath={.items[*].spec.nodeName}").stdout
    assert set(nodes.split()) <= set(fake_nodes)


def test_a_pod_that_asks_for_more_gpus_than_a_node_has_stays_pending(
    api_server: ApiServer, namespace: str, fake_nodes: list[str]
) -> None:
    api_server.kubectl("apply", "-n", namespace, "-f", "-", input=deployment("too-big", replicas=1, gpus=17))

    def refusal() -> str:
        events = api_server.kubectl("get", "events", "-n", namespace, "--field-selector=reason=FailedScheduling")
        return events.stdout

    assert "Insufficient nvidia.com/gpu" in eventually_sync(refusal, what="the scheduler's refusal")


def test_a_service_account_may_do_only_what_its_role_allows(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    reader = api_server.as_service_account(namespace, "reader", tmp_path)
    api_server.kubectl("create", "role", "reads", "-n", namespace, "--verb=get,list", "--resource=configmaps")
    api_server.kubectl(
        *("create", "rolebinding", "reads", "-n", namespace, "--role=reads", f"--serviceaccount={namespace}:reader")
    )
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    eventually_sync(lambda: reader.request("GET", path).status == HTTPStatus.OK, what="the role takes effect")
    assert reader.request("POST", path, {"metadata": {"name": "x"}}).status == HTTPStatus.FORBIDDEN


def test_each_namespace_is_new_and_is_removed_afterwards(api_server: ApiServer) -> None:
    with fresh_namespace(api_server, "one") as first, fresh_namespace(api_server, "one") as second:
        assert first != second

    def gone() -> bool:
        return api_server.request("GET", f"/api/v1/namespaces/{first}").status == HTTPStatus.NOT_FOUND

    eventually_sync(gone, what="the namespace is gone")


def test_users_given_at_the_start_are_known_by_their_tokens(tmp_path: Path) -> None:
    with ControlPlane(tmp_path / "plane", users=[User("alice", "alices-token", ("developers",))]) as plane:
        server = ApiServer(plane.admin.url, plane.admin.ca_file, "alices-token", plane.kubeconfig, plane.version)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = server.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)

    assert answer.body["status"]["userInfo"]["username"] == "alice"
    assert "developers" in answer.body["status"]["userInfo"]["groups"]


def test_a_killed_owner_leaves_no_process_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PLANE_OF_A_CHILD, str(tmp_path / "plane")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        lines = iter(owner.stdout.readline, "")
        process_ids = next(line for line in lines if line[0].isdigit()).split()
        assert len(process_ids) == 4

        owner.send_signal(signal.SIGKILL)

    eventually_sync(
        lambda: not any(Path("/proc", process_id).exists() for process_id in process_ids),
        what="the control plane's processes are gone",
    )
