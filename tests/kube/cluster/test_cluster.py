"""A complete cluster: what runs on it, and that it leaves the machine as it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import realkube
from equipment.machine import everything_running_for, name_of, still_running, traces
from equipment.servers import ApiServer, fresh_namespace, use_running
from equipment.waiting import eventually_sync
from realkube import packages
from realkube.node import NODE, SIMULATED_GPUS
from realkube.removal import processes
from realkube.site import INDEX_VARIABLE, MOST_SITES, Site

HACK = Path(realkube.__file__).parents[1]
WEB_SERVER = "mkdir /www && echo page of busybox > /www/index.html && exec httpd -f -p 8080 -h /www"
GRACE = 1  # a web server that is a container's first process ignores the polite signal


@dataclass(frozen=True)
class Cluster:
    """A running cluster, how it came up, and what the machine looked like before."""

    site: Site
    server: ApiServer
    said: str
    before: set[str]


def realkube_command(command: str) -> subprocess.CompletedProcess[str]:
    """What `make cluster-up` and `make cluster-down` run."""
    return subprocess.run(
        [sys.executable, "-m", "realkube", command], cwd=HACK, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A place for a cluster that nobody uses, and never the one that a person gets by default."""
    packages.ensure(lambda _: None)  # before the first look at the machine: one of them shows its packet filter
    with pytest.MonkeyPatch.context() as environment:
        for index in reversed(range(1, MOST_SITES)):
            environment.setenv(INDEX_VARIABLE, str(index))
            if not (site := Site.from_environment()).state.exists():
                yield site
                return
        pytest.fail(f"{MOST_SITES} clusters are running on this machine")


@pytest.fixture(scope="module")
def cluster(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    before = traces(site)
    up = realkube_command("up")
    try:
        assert up.returncode == 0, up.stderr
        with use_running(site.kubeconfig, tmp_path_factory.mktemp("cluster")) as server:
            yield Cluster(site, server, up.stdout, before)
    finally:
        realkube_command("down")


@pytest.fixture
def namespace(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[str]:
    """A namespace for this test alone, on the complete cluster."""
    with fresh_namespace(cluster.server, request.node.name) as name:
        yield name


def run_pod(cluster: Cluster, namespace: str, name: str, image: str, *command: str, gpus: int = 0) -> None:
    """Make a pod; nothing is waited for."""
    container = {"name": "main", "image": image, "command": command} if command else {"name": "main", "image": image}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": GRACE,
            "containers": [{**container, "resources": {"limits": limits}}],
        },
    }
    cluster.server.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(pod))


def wait_ready(cluster: Cluster, namespace: str, pod: str) -> str:
    """Wait until the pod is Ready and give its address."""
    cluster.server.kubectl("wait", "-n", namespace, f"pod/{pod}", "--for=condition=Ready", "--timeout=180s")
    return cluster.server.kubectl("get", "-n", namespace, f"pod/{pod}", "-o", "jsonpath={.status.podIP}").stdout


def page(address: str, port: int) -> str:
    """Read the page, waiting for the server in the pod to listen."""

    def attempt() -> str:
        try:
            with urllib.request.urlopen(f"http://{address}:{port}/", timeout=5) as response:
                return str(response.read().decode())
        except OSError as error:
            raise AssertionError(str(error)) from error

    return eventually_sync(attempt, what=f"a page from {address}:{port}")


def wait_for_nothing_new(site: Site, before: set[str]) -> None:
    """Wait until nothing is on the machine that was not there before; the kernel drops some things in its own time."""

    def nothing_new() -> bool:
        assert traces(site) - before == set()
        return True

    eventually_sync(nothing_new, what="the machine is as it was")


def test_a_start_that_is_killed_is_cleaned_by_down(site: Site) -> None:
    before = traces(site)
    with subprocess.Popen([sys.executable, "-m", "realkube", "up"], cwd=HACK, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        # On a machine without a cache it speaks of what it builds first.
        assert any("kube-apiserver ready" in line for line in up.stdout)
        up.send_signal(signal.SIGKILL)

    down = realkube_command("down")

    assert (down.returncode, down.stderr) == (0, "")
    assert processes(site) == []
    assert not site.state.exists()
    wait_for_nothing_new(site, before)


def test_up_says_what_it_started_and_how_to_use_it(cluster: Cluster) -> None:
    assert cluster.said.splitlines()[-1] == f"export KUBECONFIG={cluster.site.kubeconfig}"
    for component in ("kube-apiserver", "kube-controller-manager", "containerd", "kubelet", "kube-proxy"):
        assert component in cluster.said


def test_a_second_up_finds_it_running(cluster: Cluster) -> None:
    again = realkube_command("up")

    assert again.returncode == 0
    assert again.stdout.splitlines() == ["already running", f"export KUBECONFIG={cluster.site.kubeconfig}"]


def test_the_node_is_ready(cluster: Cluster) -> None:
    ready = cluster.server.kubectl("wait", f"node/{NODE}", "--for=condition=Ready", "--timeout=180s")

    assert "condition met" in ready.stdout


def test_a_busybox_deployment_becomes_available_and_its_page_is_read_from_its_pod(
    cluster: Cluster, namespace: str
) -> None:
    kubectl = cluster.server.kubectl
    kubectl("create", "deployment", "web", "-n", namespace, "--image=busybox:1.36", "--", "sh", "-c", WEB_SERVER)

    kubectl("wait", "-n", namespace, "deployment/web", "--for=condition=Available", "--timeout=180s")

    address = kubectl("get", "pods", "-n", namespace, "-o", "jsonpath={.items[0].status.podIP}").stdout
    assert page(address, 8080) == "page of busybox\n"


@pytest.mark.parametrize("image", ["python:3.12", "python:3.12-slim"])
def test_python_images_run_a_web_server(cluster: Cluster, namespace: str, image: str) -> None:
    run_pod(cluster, namespace, "web", image, "python", "-m", "http.server", "8000")

    assert "Directory listing for /" in page(wait_ready(cluster, namespace, "web"), 8000)


def test_nginx_serves_its_page_without_being_told_how(cluster: Cluster, namespace: str) -> None:
    run_pod(cluster, namespace, "web", "nginx:1.27")

    assert "Welcome to nginx!" in page(wait_ready(cluster, namespace, "web"), 80)


def test_the_projects_image_has_the_project_and_what_it_needs(cluster: Cluster, namespace: str) -> None:
    program = "import aiohttp, cryptography.x509, uvloop, yaml, gpu_runtime; print('imported', flush=True)"
    run_pod(
        cluster, namespace, "project", "gpu-runtime:dev", "python", "-c", f"{program}; import time; time.sleep(600)"
    )
    wait_ready(cluster, namespace, "project")

    def logs() -> str:
        return cluster.server.kubectl("logs", "-n", namespace, "project").stdout

    assert eventually_sync(logs, what="the pod's log") == "imported\n"


def test_a_command_can_be_run_in_a_pod(cluster: Cluster, namespace: str) -> None:
    run_pod(cluster, namespace, "shell", "busybox:1.36", "sleep", "600")
    wait_ready(cluster, namespace, "shell")

    assert cluster.server.kubectl("exec", "-n", namespace, "shell", "--", "echo", "inside").stdout == "inside\n"


def test_a_service_is_reached_by_its_name_and_from_the_machine_by_its_address(cluster: Cluster, namespace: str) -> None:
    kubectl = cluster.server.kubectl
    run_pod(cluster, namespace, "web", "nginx:1.27")
    run_pod(cluster, namespace, "client", "busybox:1.36", "sleep", "600")
    kubectl("label", "-n", namespace, "pod/web", "app=web")
    kubectl("expose", "-n", namespace, "pod/web", "--port=8000", "--target-port=80")
    for pod in ("web", "client"):
        wait_ready(cluster, namespace, pod)

    def fetch() -> str:
        return kubectl(
            *("exec", "-n", namespace, "client", "--", "wget", "-qO-", "http://web:8000"), check=False
        ).stdout

    assert "Welcome to nginx!" in eventually_sync(fetch, what="the page by the Service's name")
    address = kubectl("get", "-n", namespace, "service/web", "-o", "jsonpath={.spec.clusterIP}").stdout
    assert "Welcome to nginx!" in page(address, 8000)


def test_gpus_are_counted(cluster: Cluster, namespace: str) -> None:
    kubectl = cluster.server.kubectl
    run_pod(cluster, namespace, "all", "busybox:1.36", "sleep", "600", gpus=SIMULATED_GPUS)
    wait_ready(cluster, namespace, "all")
    run_pod(cluster, namespace, "one-more", "busybox:1.36", "sleep", "600", gpus=1)

    def refusal() -> str:
        return kubectl("get", "events", "-n", namespace, "--field-selector=reason=FailedScheduling").stdout

    assert "Insufficient nvidia.com/gpu" in eventually_sync(refusal, what="the scheduler's refusal")
    kubectl("delete", "pod", "-n", namespace, "all")
    wait_ready(cluster, namespace, "one-more")


def test_a_volume_of_the_default_class_outlives_its_pod(cluster: Cluster, namespace: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "rook-ceph-block",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    kubectl = cluster.server.kubectl
    kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(claim))

    def pod(name: str, script: str) -> str:
        container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", f"{script}; sleep 600"]}
        mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        spec = {"containers": [{**container, **mount}], "volumes": [volume], "terminationGracePeriodSeconds": GRACE}
        return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    kubectl("apply", "-n", namespace, "-f", "-", input=pod("writer", "echo kept > /data/file; touch /tmp/written"))
    wait_ready(cluster, namespace, "writer")
    eventually_sync(
        lambda: kubectl("exec", "-n", namespace, "writer", "--", "ls", "/tmp/written", check=False).returncode == 0,
        what="the file is written",
    )
    kubectl("delete", "pod", "-n", namespace, "writer")
    kubectl("apply", "-n", namespace, "-f", "-", input=pod("reader", "true"))
    wait_ready(cluster, namespace, "reader")

    assert kubectl("exec", "-n", namespace, "reader", "--", "cat", "/data/file").stdout == "kept\n"


def test_down_leaves_the_machine_as_it_was(cluster: Cluster) -> None:
    run_pod(cluster, "default", "running", "nginx:1.27")
    page(wait_ready(cluster, "default", "running"), 80)
    everything = everything_running_for(cluster.site)
    assert {"busybox", "kubelet", "etcd"} <= {name_of(process_id) for process_id, _ in everything}

    down = realkube_command("down")

    assert down.returncode == 0, down.stderr
    assert still_running(everything) == set()
    assert processes(cluster.site) == []
    assert not cluster.site.state.exists()
    wait_for_nothing_new(cluster.site, cluster.before)
