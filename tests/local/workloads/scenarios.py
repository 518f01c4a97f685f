"""What happens on a cluster, told once for the real one and the embedded one.

Each scenario leaves its namespace in a state that both must show alike. Its name is a sentence about it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime

from local.workloads.world import FOREVER, MISSING_IMAGE, Document, World, pod_spec

Scenario = Callable[[World], None]
SCENARIOS: dict[str, Scenario] = {}
GPUS = 4
ASKED_OFTEN = "test $(wc -l < /tmp/asked) -ge 10"  # more often than an agent asks in the first moment without a word
SHORT_LIFE = 6  # seconds: its container has started before, on a busy machine as well
ONE_BY_ONE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def scenario(tell: Scenario) -> Scenario:
    SCENARIOS[tell.__name__] = tell
    return tell


def another(name: str) -> str:
    """A script that differs by a word, and so does its template."""
    return f": {name}; {FOREVER}"


def probe(script: str, **given: int) -> Document:
    """A probe that asks often and has patience: how long an answer takes is no matter here."""
    return {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 1, "timeoutSeconds": 30, **given}


def changed(world: World, deployment: str, word: str) -> None:
    world.change(deployment, command=["sh", "-c", another(word)])


# -- rollouts


@scenario
def a_deployment_becomes_available(world: World) -> None:
    world.deployment("web", replicas=2)
    world.until_complete("web")


@scenario
def a_new_template_replaces_the_pods_one_by_one(world: World) -> None:
    world.deployment("web", replicas=2, strategy=ONE_BY_ONE)
    world.until_complete("web")
    changed(world, "web", "second")
    world.until_complete("web")


@scenario
def recreate_ends_every_old_pod_before_the_first_new_one(world: World) -> None:
    world.deployment("web", strategy={"type": "Recreate"})
    world.until_complete("web")
    changed(world, "web", "second")
    world.until_complete("web")


@scenario
def undo_brings_the_former_template_back_as_a_new_revision(world: World) -> None:
    world.deployment("web", strategy=ONE_BY_ONE)
    world.until_complete("web")
    changed(world, "web", "second")
    world.until_complete("web")
    world.undo("web")
    world.until_complete("web")


@scenario
def restart_makes_new_pods_of_the_same_template(world: World) -> None:
    world.deployment("web", strategy=ONE_BY_ONE)
    world.until_complete("web")
    world.restart("web")
    world.until_complete("web")


@scenario
def scaling_up_keeps_the_revision(world: World) -> None:
    world.deployment("web")
    world.until_complete("web")
    world.scale("web", 3)
    world.until_complete("web")


@scenario
def scaling_to_nothing_leaves_an_empty_replica_set(world: World) -> None:
    world.deployment("web", replicas=2)
    world.until_complete("web")
    world.scale("web", 0)
    world.until_complete("web")
    world.until("pods gone", lambda: not world.list("Pod"))


@scenario
def a_paused_deployment_does_not_roll_out(world: World) -> None:
    world.deployment("web")
    world.until_complete("web")
    world.pause("web")
    world.until_condition("Deployment", "web", "Progressing", "Unknown", "DeploymentPaused")
    changed(world, "web", "second")
    world.until_object(
        "Deployment", "web", lambda one: one["status"]["observedGeneration"] == one["metadata"]["generation"]
    )


@scenario
def a_resumed_deployment_rolls_out_what_was_held_back(world: World) -> None:
    world.deployment("web", strategy=ONE_BY_ONE)
    world.until_complete("web")
    world.pause("web")
    changed(world, "web", "second")
    world.until_condition("Deployment", "web", "Progressing", "Unknown", "DeploymentPaused")
    world.pause("web", paused=False)
    world.until_complete("web")


@scenario
def old_replica_sets_beyond_the_history_limit_go(world: World) -> None:
    world.deployment("web", strategy=ONE_BY_ONE, revisionHistoryLimit=1)
    world.until_complete("web")
    for word in ("second", "third"):
        changed(world, "web", word)
        world.until_complete("web")
    world.until("one old set is left", lambda: len(world.list("ReplicaSet")) == 2)


@scenario
def a_rollout_to_a_missing_image_stops_and_the_old_pod_stays(world: World) -> None:
    world.deployment("web", strategy=ONE_BY_ONE, progressDeadlineSeconds=4)
    world.until_complete("web")
    world.change("web", image=MISSING_IMAGE)
    world.until_condition("Deployment", "web", "Progressing", "False", "ProgressDeadlineExceeded")
    world.until(
        "the new pod waits for its image",
        lambda: any(
            one["state"].get("waiting", {}).get("reason") == "ImagePullBackOff"
            for pod in world.list("Pod")
            for one in pod["status"].get("containerStatuses", [])
        ),
    )


@scenario
def minimum_ready_seconds_delay_availability(world: World) -> None:
    world.deployment("web", minReadySeconds=3)
    world.until_complete("web")
    [pod] = world.list("Pod")
    ready = since(pod, "Ready")
    available = since(world.get("Deployment", "web") or {}, "Available")
    assert (available - ready).total_seconds() >= 3


@scenario
def a_lost_pod_is_replaced(world: World) -> None:
    world.deployment("web")
    world.until_complete("web")
    world.delete("Pod", world.list("Pod")[0]["metadata"]["name"])
    world.until("a new pod alone", lambda: [is_ready(pod) for pod in world.list("Pod")] == [True])
    world.until_complete("web")


@scenario
def a_pod_without_owner_is_adopted_by_its_labels(world: World) -> None:
    world.create("Pod", "loose", pod_spec(FOREVER), metadata={"labels": {"app": "web"}})
    world.until_ready("loose")
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec(FOREVER)},
    }
    world.create("ReplicaSet", "web", spec)
    world.until_object("ReplicaSet", "web", lambda one: one["status"].get("availableReplicas") == 1)


@scenario
def a_pod_that_lost_its_label_is_released_and_replaced(world: World) -> None:
    world.deployment("web")
    world.until_complete("web")
    name = world.list("Pod")[0]["metadata"]["name"]
    world.patch("Pod", name, {"metadata": {"labels": {"app": "other"}}})
    world.until("two pods", lambda: len([pod for pod in world.list("Pod") if is_ready(pod)]) == 2)
    world.until_object("Pod", name, lambda one: "ownerReferences" not in one["metadata"])


# -- quota


@scenario
def a_quota_refuses_pods_in_its_own_words(world: World) -> None:
    world.create("ResourceQuota", "few", {"hard": {"pods": "1"}})
    world.until_object("ResourceQuota", "few", lambda one: "used" in one["status"])
    world.deployment("web", replicas=2)
    world.until_condition("Deployment", "web", "ReplicaFailure", "True", "FailedCreate")
    world.until_object("Deployment", "web", lambda one: one["status"].get("availableReplicas") == 1)


@scenario
def room_in_a_quota_is_used_when_it_appears(world: World) -> None:
    world.create("ResourceQuota", "few", {"hard": {"pods": "1"}})
    world.until_object("ResourceQuota", "few", lambda one: "used" in one["status"])
    world.pod("first")
    world.until_ready("first")
    world.deployment("web")
    world.until_condition("Deployment", "web", "ReplicaFailure", "True", "FailedCreate")
    world.delete("Pod", "first")
    world.until_complete("web")
    world.until_object("ResourceQuota", "few", lambda one: one["status"]["used"] == {"pods": "1"})


@scenario
def a_quota_counts_what_is_there(world: World) -> None:
    hard = {"pods": "9", "requests.cpu": "2", "limits.memory": "1Gi", "count/configmaps": "9", "services": "3"}
    world.create("ResourceQuota", "all", {"hard": hard})
    world.until_object("ResourceQuota", "all", lambda one: "used" in one["status"])
    small = {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}}
    world.pod("stays", resources=small)
    world.pod("goes", resources=small)
    world.pod("ends", "exit 0", resources=small, restartPolicy="Never")
    world.create("Service", "web", {"ports": [{"port": 80}], "selector": {"app": "nobody"}})
    world.until_ready("stays")
    world.until_ready("goes")
    world.until_phase("Pod", "ends", "Succeeded")
    world.delete("Pod", "goes")
    world.until_object("ResourceQuota", "all", lambda one: one["status"]["used"]["pods"] == "1")


# -- garbage collection


@scenario
def background_deletion_takes_the_dependents_along(world: World) -> None:
    world.deployment("web", replicas=2)
    world.until_complete("web")
    world.delete("Deployment", "web", propagationPolicy="Background")
    world.until("all gone", lambda: not (world.list("ReplicaSet") or world.list("Pod")))


@scenario
def foreground_deletion_waits_for_the_dependents(world: World) -> None:
    slow = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"
    world.deployment("web", slow, terminationGracePeriodSeconds=5)
    world.until_complete("web")
    left = world.delete("Deployment", "web", propagationPolicy="Foreground")
    assert left["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.until_gone("Deployment", "web")
    assert not world.list("ReplicaSet")
    assert not world.list("Pod")


@scenario
def orphaning_deletion_leaves_the_dependents_without_owner(world: World) -> None:
    world.deployment("web")
    world.until_complete("web")
    world.delete("Deployment", "web", propagationPolicy="Orphan")
    world.until_gone("Deployment", "web")
    world.until("no owner", lambda: not world.list("ReplicaSet")[0]["metadata"].get("ownerReferences"))


@scenario
def a_recreated_deployment_adopts_what_was_orphaned(world: World) -> None:
    world.deployment("web")
    world.until_complete("web")
    world.delete("Deployment", "web", propagationPolicy="Orphan")
    world.until_gone("Deployment", "web")
    world.deployment("web")
    world.until_complete("web")


@scenario
def an_object_whose_owner_never_was_goes(world: World) -> None:
    world.create("ConfigMap", "owner", data={})
    stays = reference("owner", world.get("ConfigMap", "owner") or {})
    absent = {**stays, "name": "nobody", "uid": "00000000-0000-4000-8000-000000000000"}
    world.create("ConfigMap", "goes", metadata={"ownerReferences": [absent]})
    world.create("ConfigMap", "stays", metadata={"ownerReferences": [stays, absent]})
    world.until_gone("ConfigMap", "goes")
    world.until_object("ConfigMap", "stays", lambda one: len(one["metadata"]["ownerReferences"]) == 1)


@scenario
def a_namespace_goes_with_everything_in_it(world: World) -> None:
    world.deployment("web")
    world.create("Service", "web", {"ports": [{"port": 80}], "selector": {"app": "web"}})
    world.create("ConfigMap", "words", data={"a": "b"})
    world.until_complete("web")
    world.delete("Namespace", world.namespace)
    world.until_gone("Namespace", world.namespace)
    assert not world.list("Pod")
    assert not world.list("ConfigMap")


# -- pods


@scenario
def a_pod_that_ends_well_has_succeeded(world: World) -> None:
    world.pod("once", "echo done", restartPolicy="Never")
    world.until_phase("Pod", "once", "Succeeded")
    world.until_log("once", "done")


@scenario
def a_pod_that_ends_badly_has_failed(world: World) -> None:
    world.pod("once", "echo why > /dev/termination-log; exit 7", restartPolicy="Never")
    world.until_phase("Pod", "once", "Failed")


@scenario
def a_container_that_keeps_failing_is_held_back(world: World) -> None:
    world.pod("loop", "echo again; exit 3")
    world.until_object("Pod", "loop", lambda one: restarts(one) >= 1)
    world.until_waiting("loop", "CrashLoopBackOff")
    world.until_event("loop", "BackOff")
    assert "again" in world.log("loop", previous="true")


@scenario
def the_last_words_of_a_failed_container_are_its_message(world: World) -> None:
    world.pod("talks", "echo it broke; exit 1", restartPolicy="Never", terminationMessagePolicy="FallbackToLogsOnError")
    world.until_phase("Pod", "talks", "Failed")


@scenario
def a_command_that_is_not_there_cannot_start(world: World) -> None:
    world.pod("lost", restartPolicy="Never", command=["/no/such/program"])
    world.until_phase("Pod", "lost", "Failed")


@scenario
def an_image_that_is_not_there_is_waited_for(world: World) -> None:
    world.pod("lost", image=MISSING_IMAGE)
    world.until_waiting("lost", "ImagePullBackOff")
    world.until_event("lost", "BackOff")


@scenario
def init_containers_run_one_after_the_other_before_the_rest(world: World) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    world.pod(
        "ordered",
        f"cat /shared/words; {FOREVER}",
        volumeMounts=mounts,
        volumes=[{"name": "shared", "emptyDir": {}}],
        initContainers=[
            init("first", "echo one >> /shared/words", mounts),
            init("second", "echo two >> /shared/words", mounts),
        ],
    )
    world.until_ready("ordered")
    world.until_log("ordered", "one\ntwo\n")


@scenario
def a_failed_init_container_fails_the_pod(world: World) -> None:
    world.pod("stuck", restartPolicy="Never", initContainers=[init("first", "exit 5")])
    world.until_phase("Pod", "stuck", "Failed")


@scenario
def a_failing_init_container_is_tried_again(world: World) -> None:
    world.pod("stuck", initContainers=[init("first", "exit 5")])
    world.until_object("Pod", "stuck", lambda one: restarts(one, "initContainerStatuses") >= 1)
    world.until_waiting("stuck", "CrashLoopBackOff")
    world.until_event("stuck", "BackOff")


@scenario
def a_pod_that_is_not_ready_keeps_its_deployment_unavailable(world: World) -> None:
    world.deployment("web", readinessProbe=probe("false"))
    world.until_event("web", "Unhealthy")
    world.until_object("Deployment", "web", lambda one: one["status"].get("unavailableReplicas") == 1)


@scenario
def a_pod_becomes_ready_when_its_probe_says_so(world: World) -> None:
    world.pod("slow", readinessProbe=probe(f"echo >> /tmp/asked; {ASKED_OFTEN}"))
    world.until_event("slow", "Unhealthy")
    world.until_ready("slow")


@scenario
def a_container_that_is_not_alive_is_restarted(world: World) -> None:
    first = "test -e /scratch/second || { touch /scratch/second; sleep 1; touch /tmp/sick; }"
    world.pod(
        "sick",
        f"trap 'exit 0' TERM; {first}; {FOREVER}",
        terminationGracePeriodSeconds=30,
        livenessProbe=probe("test ! -e /tmp/sick", failureThreshold=1),
        volumes=[{"name": "work", "emptyDir": {}}],
        volumeMounts=[{"name": "work", "mountPath": "/scratch"}],
    )
    world.until_object("Pod", "sick", lambda one: restarts(one) == 1)
    world.until_ready("sick")
    world.until_event("sick", "Killing")


@scenario
def a_startup_probe_holds_back_the_others(world: World) -> None:
    startup = probe(f"echo >> /tmp/asked; {ASKED_OFTEN}", failureThreshold=60)
    liveness = probe(ASKED_OFTEN, failureThreshold=1)
    world.pod("slow", startupProbe=startup, livenessProbe=liveness)
    world.until_event("slow", "Unhealthy", "Startup")
    world.until_ready("slow")


@scenario
def variables_come_from_fields_config_maps_and_secrets(world: World) -> None:
    world.create("ConfigMap", "words", data={"greeting": "hello", "NAME": "world"})
    world.create("Secret", "hidden", data={"token": base64.b64encode(b"s3cret").decode()})
    env = [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "greeting"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "token"}}},
        {"name": "ALL", "value": "$(POD) $(GREETING) $(TOKEN)"},
    ]
    script = 'echo "$ALL $NAME"'
    world.pod("told", script, restartPolicy="Never", env=env, envFrom=[{"configMapRef": {"name": "words"}}])
    world.until_phase("Pod", "told", "Succeeded")
    world.until_log("told", "told hello s3cret world")


@scenario
def a_variable_from_a_missing_config_map_holds_the_container_back(world: World) -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "nowhere", "key": "a"}}}]
    world.pod("held", env=env)
    world.until_waiting("held", "CreateContainerConfigError")


@scenario
def volumes_bring_config_maps_and_secrets_as_files(world: World) -> None:
    world.create("ConfigMap", "words", data={"greeting": "hello"})
    world.create("Secret", "hidden", data={"token": base64.b64encode(b"s3cret").decode()})
    volumes = [
        {"name": "words", "configMap": {"name": "words"}},
        {"name": "hidden", "secret": {"secretName": "hidden"}},
        {"name": "fast", "emptyDir": {"medium": "Memory"}},
    ]
    mounts = [{"name": name, "mountPath": f"/in/{name}"} for name in ("words", "hidden", "fast")]
    script = "echo x > /in/fast/x; cat /in/words/greeting /in/hidden/token /in/fast/x"
    world.pod("reads", script, restartPolicy="Never", volumes=volumes, volumeMounts=mounts)
    world.until_phase("Pod", "reads", "Succeeded")
    world.until_log("reads", "hellos3cretx")


@scenario
def a_pod_that_ignores_the_polite_signal_is_killed_after_its_grace(world: World) -> None:
    world.pod("deaf", "trap '' TERM; while :; do sleep 0.1; done", terminationGracePeriodSeconds=2)
    world.until_ready("deaf")
    left = world.delete("Pod", "deaf")
    assert left["metadata"]["deletionGracePeriodSeconds"] == 2
    world.until_gone("Pod", "deaf")
    world.until_event("deaf", "Killing")


@scenario
def a_pod_past_its_own_deadline_has_failed(world: World) -> None:
    world.pod("late", activeDeadlineSeconds=SHORT_LIFE, terminationGracePeriodSeconds=30)
    world.until_phase("Pod", "late", "Failed")


@scenario
def one_failed_container_fails_the_pod_when_all_have_ended(world: World) -> None:
    second = {"name": "second", "image": "busybox:1.36", "command": ["sh", "-c", "exit 4"]}
    spec = pod_spec("exit 0", restartPolicy="Never")
    spec["containers"].append(second)
    world.create("Pod", "two", spec)
    world.until_phase("Pod", "two", "Failed")


# -- jobs


@scenario
def a_job_is_complete_when_its_pods_have_succeeded(world: World) -> None:
    world.job("work", "exit 0", completions=3, parallelism=2)
    world.until_condition("Job", "work", "Complete", "True")


@scenario
def a_job_fails_when_its_pod_may_not_be_tried_again(world: World) -> None:
    world.job("work", "exit 1", backoffLimit=0)
    world.until_condition("Job", "work", "Failed", "True")


@scenario
def a_job_that_restarts_in_place_fails_by_its_restarts(world: World) -> None:
    # The restart that is one too many stays: of one that fails at once it is a matter of time how it is found.
    script = "if [ -e /once/ran ]; then trap 'exit 1' TERM; while :; do sleep 0.1; done; fi; touch /once/ran; exit 1"
    volumes = {
        "volumes": [{"name": "work", "emptyDir": {}}],
        "volumeMounts": [{"name": "work", "mountPath": "/once"}],
    }
    template = {"spec": pod_spec(script, restartPolicy="OnFailure", **volumes)}
    world.create("Job", "work", {"template": template, "backoffLimit": 1})
    world.until_condition("Job", "work", "Failed", "True")
    world.until("its pod is gone", lambda: not world.list("Pod"))


@scenario
def a_job_past_its_deadline_fails_and_ends_its_pods(world: World) -> None:
    world.job("work", FOREVER, activeDeadlineSeconds=SHORT_LIFE)
    world.until_condition("Job", "work", "Failed", "True")
    world.until("its pod is gone", lambda: not world.list("Pod"))


@scenario
def a_finished_job_goes_after_its_time(world: World) -> None:
    world.job("work", "exit 0", ttlSecondsAfterFinished=1)
    world.until_gone("Job", "work")
    world.until("its pod is gone", lambda: not world.list("Pod"))


@scenario
def a_suspended_job_has_no_pods(world: World) -> None:
    world.job("work", FOREVER)
    world.until_object("Job", "work", lambda one: one["status"].get("ready") == 1)
    world.patch("Job", "work", {"spec": {"suspend": True}})
    world.until_condition("Job", "work", "Suspended", "True")
    world.until("its pod is gone", lambda: not world.list("Pod"))


@scenario
def a_resumed_job_goes_on(world: World) -> None:
    world.job("work", "exit 0", suspend=True)
    world.until_condition("Job", "work", "Suspended", "True")
    world.patch("Job", "work", {"spec": {"suspend": False}})
    world.until_condition("Job", "work", "Complete", "True")


# -- scheduling


@scenario
def a_pod_that_asks_for_more_than_any_node_has_is_told_so(world: World) -> None:
    world.pod("big", resources={"requests": {"cpu": "9999"}, "limits": {"nvidia.com/gpu": "99"}})
    world.until_condition("Pod", "big", "PodScheduled", "False", "Unschedulable")
    world.until_event("big", "FailedScheduling")


@scenario
def a_pod_for_another_kind_of_node_is_told_so(world: World) -> None:
    world.pod("picky", nodeSelector={"disk": "golden"})
    world.until_condition("Pod", "picky", "PodScheduled", "False", "Unschedulable")
    world.until_event("picky", "FailedScheduling")


@scenario
def a_pod_that_waited_for_gpus_is_placed_when_they_are_free(world: World) -> None:
    world.pod("first", resources={"limits": {"nvidia.com/gpu": str(GPUS)}})
    world.until_ready("first")
    world.pod("second", resources={"limits": {"nvidia.com/gpu": "1"}})
    world.until_event("second", "FailedScheduling", "Insufficient nvidia.com/gpu")
    world.delete("Pod", "first")
    world.until_ready("second")
    world.until_gone("Pod", "first")


@scenario
def a_preference_that_no_node_meets_does_not_matter(world: World) -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["golden"]}]}
    preferred = [{"weight": 1, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    world.pod("modest", affinity=affinity)
    world.until_ready("modest")


# -- services


@scenario
def a_service_lists_the_pods_behind_it_and_which_are_ready(world: World) -> None:
    world.create(
        "Service", "web", {"selector": {"role": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "page"}]}
    )
    ports = [{"name": "page", "containerPort": 8080}]
    for name, probes in (("good", {}), ("bad", {"readinessProbe": probe("false")})):
        world.create("Pod", name, pod_spec(FOREVER, ports=ports, **probes), metadata={"labels": {"role": "web"}})
    world.until_ready("good")
    world.until_event("bad", "Unhealthy")
    world.until(
        "both are listed",
        lambda: (
            sorted(
                end["conditions"]["ready"] for one in world.list("EndpointSlice") for end in one.get("endpoints") or []
            )
            == [False, True]
        ),
    )


@scenario
def a_service_without_pods_has_an_empty_slice(world: World) -> None:
    world.create("Service", "web", {"selector": {"role": "web"}, "ports": [{"port": 80}]})
    world.until("its slice", lambda: len(world.list("EndpointSlice")) == 1)


def init(name: str, script: str, mounts: list[Document] | None = None) -> Document:
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script], "volumeMounts": mounts or []}


def is_ready(pod: Document) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def since(obj: Document, condition: str) -> datetime:
    found = next(one for one in obj["status"]["conditions"] if one["type"] == condition)
    return datetime.fromisoformat(found["lastTransitionTime"])


def restarts(pod: Document, field: str = "containerStatuses") -> int:
    return sum(one["restartCount"] for one in pod["status"].get(field, []))


def reference(name: str, obj: Document) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": obj["metadata"]["uid"]}
