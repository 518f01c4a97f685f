"""What happens to claims and volumes, told once for the real cluster and the embedded one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from local.workloads.scenarios import scenario
from local.workloads.world import MERGE, Document, World

CLAIM = "PersistentVolumeClaim"
PROTECTED = ["kubernetes.io/pvc-protection"]


def claim(world: World, name: str, storage_class: str, size: str = "1Gi") -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    world.create(CLAIM, name, spec)


def bound_claim(world: World, storage_class: str = "rook-ceph-block") -> str:
    """A claim `data` with its volume, whose name is returned."""
    claim(world, "data", storage_class)
    world.until_phase(CLAIM, "data", "Bound")
    return str((world.get(CLAIM, "data") or {})["spec"]["volumeName"])


def ask_for(world: World, size: str) -> tuple[int, str]:
    """Asks for another size of the claim `data`: status and message of the answer."""
    body = {"spec": {"resources": {"requests": {"storage": size}}}}
    answer = world.server.request("PATCH", world.path(CLAIM, "data"), body, MERGE)
    return answer.status, answer.body.get("message", "")


def own_class(world: World, word: str, **fields: Any) -> str:
    """A storage class of this scenario alone, served as the others are; it goes with the scenario's namespace."""
    name = f"{word}-{world.namespace}"
    world.create("StorageClass", name, **{"provisioner": world.provisioner, **fields})
    return name


def volumes_of(world: World) -> list[Document]:
    found = world.list("PersistentVolume")
    return [one for one in found if one["spec"].get("claimRef", {}).get("namespace") == world.namespace]


def is_bound(obj: Document) -> bool:
    return bool(obj["status"]["phase"] == "Bound")


def using(name: str, path: str, **mount: Any) -> dict[str, Any]:
    return {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        "volumeMounts": [{"name": "data", "mountPath": path, **mount}],
    }


@scenario
def a_claim_is_bound_at_once(world: World) -> None:
    claim(world, "data", "rook-ceph-block")
    world.until_phase(CLAIM, "data", "Bound")


@scenario
def a_claim_that_waits_for_its_consumer_is_bound_with_it(world: World) -> None:
    late = own_class(world, "late", volumeBindingMode="WaitForFirstConsumer")
    claim(world, "data", late)
    world.until_event("data", "WaitForFirstConsumer")
    world.pod("user", **using("data", "/somewhere/new"))
    world.until_ready("user")
    world.until_phase(CLAIM, "data", "Bound")


@scenario
def what_a_pod_wrote_into_its_volume_its_successor_reads(world: World) -> None:
    claim(world, "data", "rook-ceph-block")
    world.until_phase(CLAIM, "data", "Bound")
    world.pod("writer", "echo kept > /somewhere/new/file", restartPolicy="Never", **using("data", "/somewhere/new"))
    world.until_phase("Pod", "writer", "Succeeded")
    world.delete("Pod", "writer")
    world.until_gone("Pod", "writer")
    world.pod("reader", "cat /elsewhere/file", restartPolicy="Never", **using("data", "/elsewhere"))
    world.until_phase("Pod", "reader", "Succeeded")
    world.until_log("reader", "kept")


@scenario
def a_claim_in_use_goes_only_after_its_pod(world: World) -> None:
    claim(world, "data", "rook-ceph-block")
    world.until_phase(CLAIM, "data", "Bound")
    world.pod("user", **using("data", "/data"))
    world.until_ready("user")
    world.delete(CLAIM, "data")
    found = world.get(CLAIM, "data")
    assert found is not None
    assert found["metadata"]["finalizers"] == PROTECTED
    world.delete("Pod", "user")
    world.until_gone(CLAIM, "data")
    world.until("its volume is gone", lambda: not volumes_of(world))


@scenario
def a_claim_of_an_unknown_class_waits_and_says_so(world: World) -> None:
    claim(world, "data", "no-such-class")
    world.until_event("data", "ProvisioningFailed")  # else the scheduler may see the pod before its claim
    world.pod("user", **using("data", "/data"))
    world.until_event("user", "FailedScheduling")


@scenario
def a_claim_is_served_when_its_class_appears(world: World) -> None:
    claim(world, "data", f"coming-{world.namespace}")
    world.until_event("data", "ProvisioningFailed")
    own_class(world, "coming")
    world.until_phase(CLAIM, "data", "Bound")


@scenario
def a_pod_without_its_claim_waits_for_it(world: World) -> None:
    world.pod("user", **using("data", "/data"))
    world.until_event("user", "FailedScheduling", "not found")


# -- size


@scenario
def a_claim_grows_and_never_shrinks(world: World) -> None:
    volume = bound_claim(world)
    assert ask_for(world, "2Gi")[0] == HTTPStatus.OK
    world.until_object(CLAIM, "data", lambda one: one["status"]["capacity"] == {"storage": "2Gi"})
    world.until_object(CLAIM, "data", lambda one: not one["status"].get("conditions"))
    world.until_object("PersistentVolume", volume, lambda one: one["spec"]["capacity"] == {"storage": "2Gi"})
    status, message = ask_for(world, "1Gi")
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert message == (
        'PersistentVolumeClaim "data" is invalid: spec.resources.requests.storage: Forbidden: '
        "field can not be less than status.capacity"
    )


@scenario
def a_claim_grows_while_a_pod_uses_it(world: World) -> None:
    bound_claim(world)
    world.pod("user", **using("data", "/data"))
    world.until_ready("user")
    assert ask_for(world, "2Gi")[0] == HTTPStatus.OK
    world.until_event("data", "VolumeResizeSuccessful")


@scenario
def a_claim_of_a_class_that_cannot_expand_keeps_its_size(world: World) -> None:
    stiff = own_class(world, "stiff")
    bound_claim(world, stiff)
    status, message = ask_for(world, "2Gi")
    assert status == HTTPStatus.FORBIDDEN
    assert message == (
        'persistentvolumeclaims "data" is forbidden: only dynamically provisioned pvc can be resized and the '
        "storageclass that provisions the pvc must support resize"
    )


@scenario
def a_claim_that_is_larger_than_its_class_can_provide_waits_and_says_so(world: World) -> None:
    small = own_class(world, "small", parameters={"maximumSize": "2Gi"})
    claim(world, "data", small, "3Gi")
    world.until_event("data", "ProvisioningFailed", "3Gi is more than the 2Gi")


@scenario
def a_claim_that_cannot_grow_so_far_says_so_until_it_asks_for_less(world: World) -> None:
    small = own_class(world, "small", parameters={"maximumSize": "2Gi"}, allowVolumeExpansion=True)
    bound_claim(world, small)
    assert ask_for(world, "3Gi")[0] == HTTPStatus.OK
    world.until_condition(CLAIM, "data", "Resizing", "True")
    world.until_event("data", "VolumeResizeFailed", "3Gi is more than the 2Gi")
    assert ask_for(world, "2Gi")[0] == HTTPStatus.OK
    world.until_object(CLAIM, "data", lambda one: one["status"]["capacity"] == {"storage": "2Gi"})


@scenario
def a_claim_that_failed_to_grow_shows_that_it_is_being_resized(world: World) -> None:
    small = own_class(world, "small", parameters={"maximumSize": "2Gi"}, allowVolumeExpansion=True)
    bound_claim(world, small)
    assert ask_for(world, "3Gi")[0] == HTTPStatus.OK
    world.until_event("data", "VolumeResizeFailed")


# -- trouble


@scenario
def a_claim_waits_for_a_provisioner_that_is_not_there(world: World) -> None:
    absent = own_class(world, "absent", provisioner="example.com/nobody")
    claim(world, "data", absent)
    world.until_event("data", "ExternalProvisioning")


@scenario
def a_volume_that_is_deleted_by_hand_stays_as_long_as_its_claim(world: World) -> None:
    volume = bound_claim(world)
    world.delete("PersistentVolume", volume)
    world.pod("user", "echo x > /data/file", restartPolicy="Never", **using("data", "/data"))
    world.until_phase("Pod", "user", "Succeeded")
    assert (world.get("PersistentVolume", volume) or {})["status"]["phase"] == "Bound"
    world.delete("Pod", "user")
    world.delete(CLAIM, "data")
    world.until_gone("PersistentVolume", volume)


@scenario
def a_claim_whose_volume_is_gone_is_lost_and_no_pod_gets_it(world: World) -> None:
    volume = bound_claim(world)
    world.delete("PersistentVolume", volume)
    world.patch("PersistentVolume", volume, {"metadata": {"finalizers": None}})
    world.until_phase(CLAIM, "data", "Lost")
    world.pod("user", **using("data", "/data"))
    world.until_event("user", "FailedScheduling")


@scenario
def a_volume_that_lost_its_reference_is_bound_to_its_claim_again(world: World) -> None:
    volume = bound_claim(world, own_class(world, "alone"))  # a free volume of a common class is anybody's
    world.patch("PersistentVolume", volume, {"spec": {"claimRef": None}})
    uid = (world.get(CLAIM, "data") or {})["metadata"]["uid"]
    world.until_object(
        "PersistentVolume", volume, lambda one: one["spec"].get("claimRef", {}).get("uid") == uid and is_bound(one)
    )


@scenario
def a_pod_does_not_get_a_claim_that_is_being_deleted(world: World) -> None:
    bound_claim(world)
    world.pod("first", **using("data", "/data"))
    world.until_ready("first")
    world.delete(CLAIM, "data")
    world.pod("second", **using("data", "/data"))
    world.until_event("second", "FailedScheduling")


# -- mounts


@scenario
def a_volume_that_is_mounted_read_only_cannot_be_written(world: World) -> None:
    bound_claim(world)
    world.pod("writer", "echo kept > /data/file", restartPolicy="Never", **using("data", "/data"))
    world.until_phase("Pod", "writer", "Succeeded")
    script = "if echo changed > /data/file; then exit 1; fi; cat /data/file"
    world.pod("mount", script, restartPolicy="Never", **using("data", "/data", readOnly=True))
    source = {"claimName": "data", "readOnly": True}
    volumes = [{"name": "data", "persistentVolumeClaim": source}]
    world.pod("source", script, restartPolicy="Never", **{**using("data", "/data"), "volumes": volumes})
    for name in ("mount", "source"):
        world.until_phase("Pod", name, "Succeeded")
        world.until_log(name, "kept")
