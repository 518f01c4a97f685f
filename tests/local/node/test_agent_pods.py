"""Pods on a node: from their binding to their end, in the states and words of a kubelet."""

from __future__ import annotations

import asyncio
import urllib.request
from pathlib import Path
from typing import Any

from equipment.privileges import needs_root
from equipment.waiting import eventually
from gpu_runtime.api.meta.object import Key
from gpu_runtime.local.kinds.pods import PODS, Waiting
from gpu_runtime.local.kinds.services import ENDPOINT_SLICES, SERVICES
from gpu_runtime.local.kinds.storage import CLAIMS, VOLUMES
from local.node.cluster import CONFIG_MAPS, NODES, SECRETS, Cluster, conditions, main, sh

SERVE = "mkdir -p /site && cd /site && echo $HOSTNAME > name && exec python -m http.server 8080"


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text.strip()


async def test_a_served_page_is_ready_answers_on_its_pod_ip_and_goes_when_deleted(cluster: Cluster) -> None:
    async with cluster.agent():
        await cluster.run("web", sh(SERVE, readinessProbe={"httpGet": {"port": 8080, "path": "/name"}}))
        pod = await cluster.until_ready("web")
        assert await asyncio.to_thread(fetch, f"http://{pod.status.podIP}:8080/name") == "web"
        assert pod.status.phase == "Running"
        assert conditions(pod) == {
            "PodReadyToStartContainers": "True", "Initialized": "True", "Ready": "True", "ContainersReady": "True",
            "PodScheduled": "True",
        }  # fmt: skip
        status = main(pod)
        assert (status.ready, status.started, status.restartCount) == (True, True, 0)
        assert status.state.running
        await cluster.until_event("web", "Started", "Container started")
        await cluster.delete("web")


async def test_a_pod_that_ends_well_has_succeeded_and_holds_nothing(cluster: Cluster) -> None:
    async with cluster.agent():
        script = "echo working; echo done > /dev/termination-log"
        limits = {"limits": {"nvidia.com/gpu": "4"}}
        for name in ("first", "second"):
            await cluster.run(name, sh(script, resources=limits), restartPolicy="Never")
            pod = await cluster.until_phase(name, "Succeeded")
            ended = main(pod).state.terminated
            assert ended
            assert (ended.exitCode, ended.reason, ended.message) == (0, "Completed", "done\n")
            assert pod.status.podIP
            ready = next(condition for condition in pod.status.conditions if condition.type == "Ready")
            assert (ready.status, ready.reason) == ("False", "PodCompleted")
            assert cluster.log(pod) == ["working"]


async def test_a_pod_that_ends_badly_has_failed_with_its_code(cluster: Cluster) -> None:
    async with cluster.agent():
        await cluster.run("bad", sh("exit 7"), restartPolicy="Never")
        ended = main(await cluster.until_phase("bad", "Failed")).state.terminated
        assert ended
        assert (ended.exitCode, ended.reason) == (7, "Error")


async def test_a_termination_message_may_fall_back_to_the_log(cluster: Cluster) -> None:
    async with cluster.agent():
        container = sh("echo out of paper; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
        await cluster.run("says", container, restartPolicy="Never")
        ended = main(await cluster.until_phase("says", "Failed")).state.terminated
        assert ended
        assert ended.message == "out of paper\n"


async def test_the_message_of_an_init_container_may_fall_back_to_the_log_too(cluster: Cluster) -> None:
    async with cluster.agent():
        first = sh("echo out of paper; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
        inits = [{"name": "first", "image": "machine", **first}]
        await cluster.run("says-first", sh("true"), initContainers=inits, restartPolicy="Never")
        (status,) = (await cluster.until_phase("says-first", "Failed")).status.initContainerStatuses
        assert status.state.terminated
        assert status.state.terminated.message == "out of paper\n"


async def test_a_crashing_container_is_restarted_with_back_off(cluster: Cluster) -> None:
    async with cluster.agent(backoff_seconds=200):
        await cluster.run("crash", sh("echo boom; exit 3"))
        status = await cluster.until_waiting("crash", "CrashLoopBackOff")
        pod = await cluster.pod("crash")
        assert status.state.waiting == Waiting(
            reason="CrashLoopBackOff", message=f"back-off 3m20s restarting failed container=main pod={pod}"
        )
        assert status.lastState.terminated
        assert (status.lastState.terminated.exitCode, status.restartCount) == (3, 1)
        assert pod.status.phase == "Running"
        await cluster.until_event("crash", "BackOff", f"Back-off restarting failed container main in pod {pod}")
    async with cluster.agent():
        await cluster.until("crash", lambda pod: main(pod).restartCount >= 3)
        await cluster.delete("crash")


async def test_on_failure_restarts_until_it_succeeds(cluster: Cluster) -> None:
    async with cluster.agent():
        volume: dict[str, Any] = {"volumes": [{"name": "v", "emptyDir": {}}]}
        script = "test -e /v/tried || { touch /v/tried; exit 1; }"
        mounts = [{"name": "v", "mountPath": "/v"}]
        await cluster.run("retry", sh(script, volumeMounts=mounts), restartPolicy="OnFailure", **volume)
        pod = await cluster.until_phase("retry", "Succeeded")
        assert main(pod).restartCount == 1


async def test_a_command_that_does_not_exist_fails_in_the_runtimes_words(cluster: Cluster) -> None:
    async with cluster.agent(backoff_seconds=600):
        await cluster.run("never", {"command": ["no-such-program"]}, restartPolicy="Never")
        ended = main(await cluster.until_phase("never", "Failed")).state.terminated
        assert ended
        assert (ended.exitCode, ended.reason) == (128, "StartError")
        assert 'exec: "no-such-program": executable file not found in $PATH' in ended.message
        await cluster.run("always", {"command": ["no-such-program"]})
        status = await cluster.until_waiting("always", "CrashLoopBackOff")
        assert status.lastState.terminated
        assert status.lastState.terminated.reason == "StartError"


async def test_an_image_that_is_said_to_be_missing_is_not_pulled(cluster: Cluster) -> None:
    async with cluster.agent(backoff_seconds=2):
        await cluster.run("pull", {"image": "missing:1", "command": ["true"]})
        status = await cluster.until_waiting("pull", "ErrImagePull")
        assert status.state.waiting
        assert "missing:1: not found" in status.state.waiting.message
        status = await cluster.until_waiting("pull", "ImagePullBackOff")
        assert status.state.waiting
        assert status.state.waiting.message.startswith('Back-off pulling image "missing:1": ErrImagePull: ')
        assert (await cluster.pod("pull")).status.phase == "Pending"
        await cluster.until_event("pull", "Failed", "Error: ImagePullBackOff")


async def test_a_container_waits_for_the_config_map_that_its_variables_come_from(cluster: Cluster) -> None:
    async with cluster.agent():
        env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "a"}}}]
        await cluster.run("wait", sh("echo $A", env=env), restartPolicy="Never")
        status = await cluster.until_waiting("wait", "CreateContainerConfigError")
        assert status.state.waiting
        assert status.state.waiting.message == 'configmap "later" not found'
        await cluster.create(CONFIG_MAPS, "later", data={"a": "here"})
        assert cluster.log(await cluster.until_phase("wait", "Succeeded")) == ["here"]


async def test_variables_come_from_every_source(cluster: Cluster) -> None:
    async with cluster.agent():
        await cluster.create(CONFIG_MAPS, "map", data={"ONE": "1", "TWO": "2"})
        await cluster.create(SECRETS, "secret", data={"word": "aHVzaA=="})
        env = [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "word"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "nothing", "key": "x", "optional": True}}},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "ALL", "value": "$(NAME)-$(P_ONE)-$$(NAME)-$(UNKNOWN)"},
        ]
        script = 'echo "$NAME|$LABEL|$WORD|$NONE|$MEMORY|$ALL|$P_TWO|$0"; echo $IP'
        container = {
            "command": ["sh", "-c"], "args": [script, "$(NAME)"], "env": env,
            "envFrom": [{"prefix": "P_", "configMapRef": {"name": "map"}}],
            "resources": {"limits": {"memory": "128Mi"}},
        }  # fmt: skip
        await cluster.run("vars", container, restartPolicy="Never", labels={"app": "a"})
        pod = await cluster.until_phase("vars", "Succeeded")
        assert cluster.log(pod) == ["vars|a|hush||128|vars-1-$(NAME)-$(UNKNOWN)|2|vars", pod.status.podIP]


async def test_volumes_hold_what_they_are_made_of(cluster: Cluster, data_dir: Path) -> None:
    async with cluster.agent():
        await cluster.create(CONFIG_MAPS, "map", data={"a.txt": "A", "b.txt": "B"})
        await cluster.create(SECRETS, "secret", data={"word": "aHVzaA=="})
        volumes = [
            {"name": "map", "configMap": {"name": "map", "items": [{"key": "b.txt", "path": "deep/b"}]}},
            {"name": "secret", "secret": {"secretName": "secret", "defaultMode": 0o400}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "map"}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ]}},
        ]  # fmt: skip
        mounts = [{"name": volume["name"], "mountPath": f"/v/{volume['name']}"} for volume in volumes]
        mounts.append({"name": "map", "mountPath": "/etc/one.conf", "subPath": "deep/b"})
        script = (
            "cd /v; cat map/deep/b secret/word all/a.txt all/name /etc/one.conf; echo; ls map all;"
            " stat -c %a secret/word; stat -f -c %T memory; touch map/x || echo read-only"
        )
        await cluster.run("vols", sh(script, volumeMounts=mounts), restartPolicy="Never", volumes=volumes)
        lines = cluster.log(await cluster.until_phase("vols", "Succeeded"))
        assert lines[0] == "BhushAvolsB"
        assert {"deep", "a.txt", "b.txt", "name", "400", "tmpfs", "read-only"} <= set(lines)


async def test_a_volume_that_cannot_be_provided_is_an_event_and_the_pod_waits_for_it(cluster: Cluster) -> None:
    async with cluster.agent():
        volumes = [{"name": "v", "configMap": {"name": "later"}}]
        mounts = [{"name": "v", "mountPath": "/v"}]
        await cluster.run("vol", sh("cat /v/a", volumeMounts=mounts), restartPolicy="Never", volumes=volumes)
        words = 'MountVolume.SetUp failed for volume "v" : configmap "later" not found'
        await cluster.until_event("vol", "FailedMount", words)
        await cluster.until_waiting("vol", "ContainerCreating")
        await cluster.create(CONFIG_MAPS, "later", data={"a": "A"})
        assert cluster.log(await cluster.until_phase("vol", "Succeeded")) == ["A"]


async def test_init_containers_run_in_order_before_the_others(cluster: Cluster) -> None:
    async with cluster.agent():
        mounts = [{"name": "v", "mountPath": "/v"}]
        inits = [
            {"name": f"init-{n}", "image": "machine", **sh(f"echo {n} >> /v/order", volumeMounts=mounts)}
            for n in (1, 2)
        ]
        await cluster.run(
            "init", sh("cat /v/order", volumeMounts=mounts), initContainers=inits,
            volumes=[{"name": "v", "emptyDir": {}}], restartPolicy="Never",
        )  # fmt: skip
        pod = await cluster.until_phase("init", "Succeeded")
        assert cluster.log(pod) == ["1", "2"]
        assert [status.ready for status in pod.status.initContainerStatuses] == [True, True]


async def test_a_failing_init_container_keeps_the_others_from_starting(cluster: Cluster) -> None:
    async with cluster.agent():
        inits = [{"name": "init", "image": "machine", **sh("exit 4")}]
        await cluster.run("fails", sh("true"), initContainers=inits, restartPolicy="Never")
        pod = await cluster.until_phase("fails", "Failed")
        assert main(pod).state.waiting == Waiting(reason="PodInitializing")
        await cluster.run("loops", sh("true"), initContainers=inits)
        status = await cluster.until_waiting("loops", "CrashLoopBackOff")
        assert status.name == "init"
        pod = await cluster.pod("loops")
        initialized = next(condition for condition in pod.status.conditions if condition.type == "Initialized")
        assert (pod.status.phase, initialized.reason) == ("Pending", "ContainersNotInitialized")
        assert initialized.message == "containers with incomplete status: [init]"


async def test_a_sidecar_runs_beside_the_others_and_ends_with_them(cluster: Cluster) -> None:
    async with cluster.agent():
        sidecar = {"name": "side", "image": "machine", "restartPolicy": "Always", **sh(SERVE)}
        script = (
            "until python -c 'import urllib.request as u; u.urlopen(\"http://localhost:8080\")'; do sleep 0.1; done"
        )
        await cluster.run("pair", sh(script), initContainers=[sidecar], restartPolicy="Never")
        pod = await cluster.until_phase("pair", "Succeeded")
        assert main(pod).state.terminated


async def test_deletion_sends_sigterm_and_waits_for_the_program(cluster: Cluster, data_dir: Path) -> None:
    async with cluster.agent():
        outside = data_dir.parent / "outside"
        outside.mkdir()
        volumes = [{"name": "v", "hostPath": {"path": str(outside)}}]
        mounts = [{"name": "v", "mountPath": "/v"}]
        hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /v/order"]}}}
        script = "trap 'sleep 0.2; echo term >> /v/order; exit 0' TERM; touch /v/ready; while :; do sleep 0.05; done"
        await cluster.run("polite", sh(script, volumeMounts=mounts, lifecycle=hook), volumes=volumes)
        await eventually((outside / "ready").exists)
        await cluster.delete("polite", grace=30)
        assert (outside / "order").read_text() == "hook\nterm\n"


async def test_a_shorter_grace_counts_after_the_hook_has_run(cluster: Cluster, data_dir: Path) -> None:
    async with cluster.agent():
        outside = data_dir.parent / "outside"
        outside.mkdir()
        volumes = [{"name": "v", "hostPath": {"path": str(outside)}}]
        mounts = [{"name": "v", "mountPath": "/v"}]
        hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /v/order"]}}}
        script = "trap 'echo term >> /v/order' TERM; touch /v/ready; while :; do sleep 0.05; done"
        await cluster.run("stubborn", sh(script, volumeMounts=mounts, lifecycle=hook), volumes=volumes)
        await eventually((outside / "ready").exists)
        pod = await cluster.pod("stubborn")
        await cluster.client.delete(PODS, pod.metadata.key, grace_seconds=3600)
        order = outside / "order"
        await eventually(lambda: order.exists() and order.read_text() == "hook\nterm\n", what="the program got SIGTERM")
        await cluster.delete("stubborn", grace=2)
        assert order.read_text() == "hook\nterm\n"


async def test_a_pod_deleted_by_force_leaves_nothing_running(cluster: Cluster) -> None:
    async with cluster.agent():
        await cluster.run("stubborn", sh("trap '' TERM; sleep 3600"))
        await cluster.until_phase("stubborn", "Running")
        await cluster.delete("stubborn", grace=0)


async def test_readiness_follows_its_probe(cluster: Cluster) -> None:
    async with cluster.agent():
        probe = {"exec": {"command": ["test", "-e", "/dev/shm/ready"]}, "periodSeconds": 1, "failureThreshold": 1}
        script = (
            "sleep 0.5; touch /dev/shm/ready; until test -e /dev/shm/stop; do sleep 0.05; done;"
            " rm /dev/shm/ready; sleep 3600"
        )
        await cluster.run("probed", sh(script, readinessProbe=probe))
        pod = await cluster.until_ready("probed")
        await cluster.runtime.execute(pod.metadata.uid, "main", 0, ["touch", "/dev/shm/stop"], 30)
        pod = await cluster.until("probed", lambda pod: conditions(pod)["Ready"] == "False")
        ready = next(condition for condition in pod.status.conditions if condition.type == "Ready")
        assert (ready.reason, ready.message) == ("ContainersNotReady", "containers with unready status: [main]")
        assert main(pod).restartCount == 0
        await cluster.until_event("probed", "Unhealthy", "Readiness probe failed: ")


@needs_root("a forwarded port accepts connections that nobody behind it answers")
async def test_a_container_that_fails_its_liveness_probe_is_restarted(cluster: Cluster) -> None:
    async with cluster.agent():
        probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
        await cluster.run("dead", sh("sleep 3600", livenessProbe=probe), terminationGracePeriodSeconds=0)
        await cluster.until("dead", lambda pod: main(pod).restartCount >= 1)
        await cluster.until_event("dead", "Killing", "Container main failed liveness probe, will be restarted")
        await cluster.until_event("dead", "Unhealthy", "Liveness probe failed: dial tcp")


async def test_other_probes_wait_for_the_startup_probe(cluster: Cluster) -> None:
    async with cluster.agent():
        probe = {"exec": {"command": ["test", "-e", "/dev/shm/up"]}, "periodSeconds": 1, "timeoutSeconds": 30}
        startup, liveness = {**probe, "failureThreshold": 60}, {**probe, "failureThreshold": 1}
        script = "sleep 1.5; touch /dev/shm/up; sleep 3600"
        await cluster.run("slow", sh(script, startupProbe=startup, livenessProbe=liveness))
        pod = await cluster.until("slow", lambda pod: main(pod).started is True)
        assert (main(pod).restartCount, main(pod).ready) == (0, True)


async def test_a_pod_past_its_deadline_has_failed(cluster: Cluster) -> None:
    async with cluster.agent():
        await cluster.run("late", sh("sleep 3600"), activeDeadlineSeconds=5)
        pod = await cluster.until_phase("late", "Failed")
        assert pod.status.reason == "DeadlineExceeded"
        assert main(pod).state.terminated


async def test_more_gpus_than_there_are_is_an_admission_error(cluster: Cluster) -> None:
    async with cluster.agent():
        await cluster.run("greedy", sh("true", resources={"limits": {"nvidia.com/gpu": "5"}}))
        pod = await cluster.until_phase("greedy", "Failed")
        assert pod.status.reason == "UnexpectedAdmissionError"
        assert pod.status.message == (
            "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu."
            " Requested: 5, Available: 4, which is unexpected"
        )


async def test_an_init_container_and_a_main_one_use_the_same_gpus(cluster: Cluster) -> None:
    async with cluster.agent():
        resources = {"limits": {"nvidia.com/gpu": "4"}}
        script = "echo $CUDA_VISIBLE_DEVICES"
        init = {**sh(script, resources=resources), "name": "init", "image": "machine"}
        await cluster.run("both", sh(script, resources=resources), initContainers=[init], restartPolicy="Never")
        pod = await cluster.until_phase("both", "Succeeded")
        assert cluster.log(pod, "init") == cluster.log(pod) == ["0,1,2,3"]


@needs_root("pods have no address of their own and cannot call out")
async def test_a_service_is_reached_by_name_and_port_from_another_pod(cluster: Cluster) -> None:
    async with cluster.agent():
        await cluster.run("web", sh(SERVE, readinessProbe={"tcpSocket": {"port": 8080}}), labels={"app": "web"})
        pod = await cluster.until_ready("web")
        await cluster.create(SERVICES, "front", spec={"ports": [{"port": 80, "targetPort": 8080}]})
        await cluster.create(
            ENDPOINT_SLICES, "front-1", metadata={"labels": {"kubernetes.io/service-name": "front"}},
            addressType="IPv4", ports=[{"name": "", "port": 8080, "protocol": "TCP"}],
            endpoints=[{"addresses": [pod.status.podIP], "conditions": {"ready": True}}],
        )  # fmt: skip
        fetch_it = "import urllib.request as u; print(u.urlopen('http://front/name').read().decode())"
        await cluster.run("client", sh(f'until python -c "{fetch_it}"; do sleep 0.1; done'), restartPolicy="Never")
        assert "web" in cluster.log(await cluster.until_phase("client", "Succeeded"))
        service = await cluster.client.get(SERVICES, Key(cluster.namespace, "front"))
        assert await asyncio.to_thread(fetch, f"http://{service.spec.clusterIP}/name") == "web"


async def test_the_node_says_what_it_has(cluster: Cluster) -> None:
    async with cluster.agent():
        node = await cluster.client.get(NODES, Key("", cluster.node))
        assert node.status["capacity"]["nvidia.com/gpu"] == "4"
        ready = next(each for each in node.status["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("True", "KubeletReady")
        assert "simulated" in node.metadata.annotations["gpu-runtime.local/simulated"]


async def test_the_next_agent_adopts_running_pods_without_restart_or_unreadiness(cluster: Cluster) -> None:
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    async with cluster.agent():
        await cluster.run("web", sh(SERVE, readinessProbe=probe))
        await cluster.run("ends", sh("until test -e /dev/shm/go; do sleep 0.05; done; exit 6"), restartPolicy="Never")
        await cluster.run("gone", sh("sleep 3600"))
        before = await cluster.until_ready("web")
        ends = await cluster.until_phase("ends", "Running")
        await cluster.until_phase("gone", "Running")
    await cluster.runtime.execute(ends.metadata.uid, "main", 0, ["touch", "/dev/shm/go"], 60)
    gone = await cluster.pod("gone")
    await cluster.client.delete(PODS, gone.metadata.key, grace_seconds=0)
    async with cluster.agent():
        ended = main(await cluster.until_phase("ends", "Failed")).state.terminated
        assert ended
        assert ended.exitCode == 6
        await eventually(lambda: cluster.runtime.get(gone.metadata.uid) is None, what="the deleted pod's sandbox")
        after = await cluster.pod("web")
        assert main(after) == main(before)
        transitions = {each.type: each.lastTransitionTime for each in after.status.conditions}
        assert transitions == {each.type: each.lastTransitionTime for each in before.status.conditions}


async def test_a_pod_that_fills_its_disk_is_evicted(cluster: Cluster) -> None:
    async with cluster.agent(look_seconds=0.2):
        await cluster.run(
            "fills",
            sh("head -c 8m /dev/zero > /big; sleep 3600", resources={"limits": {"ephemeral-storage": "1Mi"}}),
        )
        volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
        mounts = [{"name": "v", "mountPath": "/v"}]
        await cluster.run(
            "pours", sh("head -c 8m /dev/zero > /v/big; sleep 3600", volumeMounts=mounts), volumes=volumes
        )
        pod = await cluster.until_phase("fills", "Failed")
        assert pod.status.reason == "Evicted"
        assert pod.status.message == 'Container main exceeded its local ephemeral storage limit "1Mi". '
        pod = await cluster.until_phase("pours", "Failed")
        assert pod.status.message == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '
        await cluster.until_event("fills", "Evicted", "exceeded its local ephemeral storage limit")


@needs_root("the machine's root directory cannot be mounted into a pod")
async def test_a_host_path_shows_the_machine_but_not_the_cluster(cluster: Cluster, data_dir: Path) -> None:
    async with cluster.agent():
        (data_dir / "secret").write_text("hush")
        mounts = [{"name": "v", "mountPath": "/machine"}]
        volumes = [{"name": "v", "hostPath": {"path": "/"}}]
        script = f"test -d /machine/usr && ls -A /machine{data_dir} | wc -l"
        await cluster.run("root", sh(script, volumeMounts=mounts), volumes=volumes, restartPolicy="Never")
        assert cluster.log(await cluster.until_phase("root", "Succeeded")) == ["0"]
        volumes = [{"name": "v", "hostPath": {"path": str(data_dir / "pods")}}]
        await cluster.run("inside", sh("ls /machine", volumeMounts=mounts), volumes=volumes, restartPolicy="Never")
        await cluster.until_event("inside", "FailedMount", "is not shown to pods")


async def claimed(cluster: Cluster, name: str, path: Path) -> dict[str, Any]:
    """A volume of the pod's that is a claim bound to a PersistentVolume with this hostPath."""
    volume = f"{cluster.namespace}-{name}"
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
    bound = {**modes, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(path)}}
    await cluster.client.create(VOLUMES, {"metadata": {"name": volume}, "spec": bound})
    wanted = {**modes, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.create(CLAIMS, name, spec=wanted)
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


async def test_a_volume_of_the_users_own_files_leaves_them_to_their_owner(cluster: Cluster, data_dir: Path) -> None:
    """fsGroup once gave them to the pod's group, as deep as they go."""
    async with cluster.agent():
        mine = data_dir.parent / "mine"
        (mine / "deep").mkdir(parents=True)
        (mine / "deep" / "file").write_text("mine")
        before = owners(mine)
        mounts = [{"name": "v", "mountPath": "/v"}]
        volumes = [await claimed(cluster, "mine", mine)]
        await cluster.run(
            "reads", sh("cat /v/deep/file", volumeMounts=mounts), volumes=volumes, restartPolicy="Never",
            securityContext={"fsGroup": 4321},
        )  # fmt: skip
        assert cluster.log(await cluster.until_phase("reads", "Succeeded")) == ["mine"]
        assert owners(mine) == before


def owners(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(each): (each.stat().st_gid, each.stat().st_mode) for each in [folder, *folder.rglob("*")]}


async def test_a_volume_that_lies_in_the_clusters_own_directory_is_not_shown(cluster: Cluster, data_dir: Path) -> None:
    async with cluster.agent():
        (data_dir / "pki").mkdir()
        (data_dir / "pki" / "admin.key").write_text("hush")
        (data_dir.parent / "link").symlink_to(data_dir / "pki")
        mounts = [{"name": "v", "mountPath": "/v"}]
        for name, path in {"plain": data_dir / "pki", "whole": data_dir, "linked": data_dir.parent / "link"}.items():
            volumes = [await claimed(cluster, name, path)]
            await cluster.run(name, sh("cat /v/*", volumeMounts=mounts), volumes=volumes, restartPolicy="Never")
            await cluster.until_event(name, "FailedMount", "is not shown to pods")
