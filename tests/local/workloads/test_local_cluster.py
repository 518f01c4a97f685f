"""The embedded cluster as one command: started, refused, killed in parts, stopped, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipment.privileges import needs_root
from equipment.servers import ApiServer, use_running
from equipment.waiting import eventually_sync
from gpu_runtime.local.controllers.volumes.matching import PROVISIONER
from gpu_runtime.local.removal import remove_tree
from local.node.machine import remains
from local.workloads.embedded import children, local_cluster
from local.workloads.scenarios import restarts
from local.workloads.volume_scenarios import bound_claim, using
from local.workloads.world import Document, World

NOTHING: dict[str, list[str]] = {"processes": [], "mounts": [], "links": [], "cgroups": []}
PAGE = (
    "import http.server,os;os.makedirs('/page',exist_ok=True);os.chdir('/page');open('index.html','w').write('{word}')"
)
SERVE = f'exec python -c "{PAGE};http.server.test(http.server.SimpleHTTPRequestHandler,port=8080)"'
NODE_DIED = "killed by SIGKILL; being started again"
READY = {"httpGet": {"port": 8080}, "periodSeconds": 1}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
THINGS = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": SCHEMA}],
    },
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Outside /tmp, which pods have of their own; gone only when nothing of the cluster is left on the machine."""
    path = Path(tempfile.mkdtemp(prefix="gpu-runtime-test-", dir="/var/tmp"))
    yield path
    assert remains(path / "data") == NOTHING
    remove_tree(path)


def world_of(folder: Path) -> World:
    with use_running(folder / "data" / "kubeconfig", folder) as server:
        eventually_sync(lambda: has_account(server), what="the default ServiceAccount")
        return World(server, "default", PROVISIONER)


def has_account(server: ApiServer) -> bool:
    return server.request("GET", "/api/v1/namespaces/default/serviceaccounts/default").status == 200


@needs_root("pods have no address of their own and cannot call out")
def test_two_pods_on_one_port_answer_by_address_and_by_service_name(folder: Path) -> None:
    with local_cluster(folder / "data", folder / "log"):
        world = world_of(folder)
        for word in ("one", "two"):
            world.pod(word, SERVE.format(word=word), readinessProbe=READY)
            world.create("Service", word, {"selector": {"app": word}, "ports": [{"port": 8080}]})
        for word in ("one", "two"):
            world.until_ready(word)
        ask = "import urllib.request as u;print(*(u.urlopen(f'http://{name}:8080').read().decode() for name in %s))"
        addresses = [(world.get("Pod", word) or {})["status"]["podIP"] for word in ("one", "two")]
        world.pod("asks", f'python -c "{ask % [*addresses, "one", "two"]}"', restartPolicy="OnFailure")
        world.until_phase("Pod", "asks", "Succeeded")
        assert world.log("asks").split()[-4:] == ["one", "two", "one", "two"]


def test_a_second_cluster_on_the_data_directory_is_refused(folder: Path) -> None:
    with local_cluster(folder / "data", folder / "log"):
        command = [sys.executable, "-m", "gpu_runtime.cli", "local-cluster", "--data-dir", str(folder / "data")]
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert second.returncode == 3
        assert "in use by another local-cluster" in second.stderr


def test_killed_controllers_and_a_killed_agent_come_back_and_no_pod_is_restarted(folder: Path) -> None:
    with local_cluster(folder / "data", folder / "log") as process:
        world = world_of(folder)
        world.deployment("web", replicas=2)
        world.until_complete("web")
        before = {pod["metadata"]["uid"] for pod in world.list("Pod")}
        for pid in children(process.pid).values():
            subprocess.run(["kill", "-KILL", str(pid)], check=True)
        eventually_sync(lambda: len(children(process.pid)) == 2, what="both children are back")
        world.scale("web", 3)
        world.until_complete("web")
        pods = {pod["metadata"]["uid"]: pod for pod in world.list("Pod")}
        assert before < pods.keys()
        assert [restarts(pod) for pod in pods.values()] == [0, 0, 0]


def test_a_part_that_is_away_is_missed_by_name_until_it_is_back(folder: Path) -> None:
    with local_cluster(folder / "data", folder / "log") as process:
        world = world_of(folder)
        assert world.server.request("GET", "/readyz").body == "ok"
        killed: set[int] = set()

        def missed() -> bool:
            answer = world.server.request("GET", "/readyz")
            node = children(process.pid).get("node_process")
            if answer.body == "ok" and node and node not in killed:
                os.kill(node, signal.SIGKILL)  # once more, if it was back before anybody looked
                killed.add(node)
            assert (answer.status, answer.body) == (503, {"ready": False, "problems": {"node": NODE_DIED}})
            return True

        eventually_sync(missed, what="the node is missed")
        assert world.server.request("GET", "/livez").body == "ok"
        eventually_sync(lambda: world.server.request("GET", "/readyz").body == "ok", what="the node is back")
        metrics = world.server.request("GET", "/metrics").body.splitlines()
        starts = len(killed) + 1
        for line in ('ready{part="node"} 1.0', f'starts{{part="node"}} {starts}.0', 'starts{part="controllers"} 1.0'):
            assert f"local_cluster_{line}" in metrics


def test_a_cluster_whose_node_cannot_start_says_why_and_still_ends_when_it_is_told_to(folder: Path) -> None:
    data, log = folder / "data", folder / "log"
    data.mkdir()
    (data / "node").touch()  # where the node wants a directory
    command = [sys.executable, "-m", "gpu_runtime.cli", "local-cluster", "--data-dir", str(data)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        eventually_sync(lambda: "the node cannot run: [Errno 17] File exists" in log.read_text(), what="it says why")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert "Traceback" not in log.read_text()


def test_pods_outlive_a_killed_cluster_and_are_adopted_by_the_next(folder: Path) -> None:
    with local_cluster(folder / "data", folder / "first.log") as process:
        world = world_of(folder)
        world.deployment("web")
        world.until_complete("web")
        started = world.list("Pod")[0]["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        process.send_signal(signal.SIGKILL)
        process.wait()
    with local_cluster(folder / "data", folder / "second.log"):
        world = world_of(folder)
        world.scale("web", 2)
        world.until_complete("web")
        states = [one["state"]["running"]["startedAt"] for pod in world.list("Pod") for one in containers(pod)]
        assert started in states


def test_a_stopped_cluster_runs_its_pods_again_when_it_starts(folder: Path) -> None:
    with local_cluster(folder / "data", folder / "first.log"):
        world = world_of(folder)
        world.deployment("web")
        world.until_complete("web")
    assert remains(folder / "data") == NOTHING
    with local_cluster(folder / "data", folder / "second.log"):
        world = world_of(folder)
        world.until(
            "the pod runs again",
            lambda: [one["ready"] for pod in world.list("Pod") for one in containers(pod)] == [True],
        )
        world.until_complete("web")


def containers(pod: Document) -> list[Document]:
    return list(pod["status"].get("containerStatuses", []))


def test_a_claim_without_a_class_gets_the_default_one_and_grows(folder: Path) -> None:
    with local_cluster(folder / "data", folder / "log"):
        world = world_of(folder)
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        world.create("PersistentVolumeClaim", "data", spec)
        world.until_phase("PersistentVolumeClaim", "data", "Bound")
        world.patch("PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
        world.until_object("PersistentVolumeClaim", "data", lambda one: one["status"]["capacity"] == {"storage": "2Gi"})
        found = world.get("PersistentVolumeClaim", "data") or {}
        assert found["spec"]["storageClassName"] == "standard"
        volume = folder / "data" / "volumes" / found["spec"]["volumeName"]
        assert volume.is_dir()
        world.delete("PersistentVolumeClaim", "data")
        world.until("its folder is gone", lambda: not volume.exists())


@needs_root("volumes need a place in the pod's file system")
def test_what_a_pod_wrote_outlives_the_cluster_and_goes_with_its_claim(folder: Path) -> None:
    volumes = folder / "data" / "volumes"
    with local_cluster(folder / "data", folder / "first.log"):
        world = world_of(folder)
        bound_claim(world)
        world.pod("writer", "echo kept > /data/file", restartPolicy="Never", **using("data", "/data"))
        world.until_phase("Pod", "writer", "Succeeded")
    with local_cluster(folder / "data", folder / "second.log"):
        world = world_of(folder)
        world.pod("reader", "cat /data/file", restartPolicy="Never", **using("data", "/data"))
        world.until_phase("Pod", "reader", "Succeeded")
        world.until_log("reader", "kept")
        for name in ("writer", "reader"):
            world.delete("Pod", name)
        world.delete("PersistentVolumeClaim", "data")
        world.until("its folder is gone", lambda: list(volumes.iterdir()) == [])


def test_children_of_a_custom_object_go_with_it(folder: Path) -> None:
    with local_cluster(folder / "data", folder / "log"):
        world = world_of(folder)
        server = world.server
        assert server.request("POST", DEFINITIONS, THINGS).status == 201
        things = "/apis/example.com/v1/namespaces/default/things"
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
        eventually_sync(lambda: server.request("POST", things, thing).status == 201, what="the new kind is served")
        owner = server.request("GET", f"{things}/t").body
        reference = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": owner["metadata"]["uid"]}
        world.create("ConfigMap", "child", metadata={"ownerReferences": [reference]})
        server.request("DELETE", f"{things}/t")
        world.until_gone("ConfigMap", "child")
