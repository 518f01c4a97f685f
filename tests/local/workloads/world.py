"""A namespace of a cluster, real or embedded, with the few words that scenarios are told in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from equipment.servers import ApiServer
from equipment.waiting import eventually_sync

Document = dict[str, Any]

PATHS = {
    "ConfigMap": "api/v1/{namespace}configmaps",
    "Secret": "api/v1/{namespace}secrets",
    "Pod": "api/v1/{namespace}pods",
    "Service": "api/v1/{namespace}services",
    "Event": "api/v1/{namespace}events",
    "PersistentVolumeClaim": "api/v1/{namespace}persistentvolumeclaims",
    "ResourceQuota": "api/v1/{namespace}resourcequotas",
    "Deployment": "apis/apps/v1/{namespace}deployments",
    "ReplicaSet": "apis/apps/v1/{namespace}replicasets",
    "Job": "apis/batch/v1/{namespace}jobs",
    "EndpointSlice": "apis/discovery.k8s.io/v1/{namespace}endpointslices",
    "Namespace": "api/v1/namespaces",
    "Node": "api/v1/nodes",
    "PersistentVolume": "api/v1/persistentvolumes",
    "StorageClass": "apis/storage.k8s.io/v1/storageclasses",
}
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
REVISION = "deployment.kubernetes.io/revision"
FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
IMAGE = "busybox:1.36"
MISSING_IMAGE = "missing.invalid/image:1"
WITHIN = 90.0


@dataclass(frozen=True)
class World:
    """What a scenario acts on."""

    server: ApiServer
    namespace: str
    provisioner: str

    def path(self, kind: str, name: str = "") -> str:
        collection = PATHS[kind].format(namespace=f"namespaces/{self.namespace}/")
        return f"/{collection}/{name}" if name else f"/{collection}"

    def create(self, kind: str, name: str, spec: Document | None = None, /, **fields: Any) -> Document:
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"metadata": metadata, **({"spec": spec} if spec is not None else {}), **fields}
        answer = self.server.request("POST", self.path(kind), body)
        assert answer.status == HTTPStatus.CREATED, answer.body
        return dict(answer.body)

    def get(self, kind: str, name: str) -> Document | None:
        answer = self.server.request("GET", self.path(kind, name))
        assert answer.status in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}, answer.body
        return dict(answer.body) if answer.status == HTTPStatus.OK else None

    def list(self, kind: str) -> list[Document]:
        answer = self.server.request("GET", self.path(kind))
        assert answer.status == HTTPStatus.OK, answer.body
        return list(answer.body["items"])

    def patch(self, kind: str, name: str, body: Document) -> None:
        answer = self.server.request("PATCH", self.path(kind, name), body, MERGE)
        assert answer.status == HTTPStatus.OK, answer.body

    def delete(self, kind: str, name: str, **options: Any) -> Document:
        """What the server answers: the object as it is left until it may go, where it has to wait."""
        answer = self.server.request("DELETE", self.path(kind, name), options or None)
        assert answer.status in {HTTPStatus.OK, HTTPStatus.ACCEPTED}, answer.body
        return dict(answer.body)

    # -- what kubectl does to a Deployment, request by request: these tests run where there is no kubectl

    def scale(self, name: str, replicas: int) -> None:
        body = {"spec": {"replicas": replicas}}
        answer = self.server.request("PATCH", f"{self.path('Deployment', name)}/scale", body, MERGE)
        assert answer.status == HTTPStatus.OK, answer.body

    def pause(self, name: str, *, paused: bool = True) -> None:
        self.patch("Deployment", name, {"spec": {"paused": paused}})

    def restart(self, name: str) -> None:
        notes = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
        self.patch("Deployment", name, {"spec": {"template": {"metadata": {"annotations": notes}}}})

    def undo(self, name: str) -> None:
        """The template of the revision before this one, from its ReplicaSet."""
        former = sorted(self.list("ReplicaSet"), key=lambda one: int(one["metadata"]["annotations"][REVISION]))[-2]
        template = former["spec"]["template"]
        del template["metadata"]["labels"]["pod-template-hash"]
        operation = {"op": "replace", "path": "/spec/template", "value": template}
        answer = self.server.request("PATCH", self.path("Deployment", name), [operation], JSON_PATCH)
        assert answer.status == HTTPStatus.OK, answer.body

    # -- objects in a few words

    def pod(self, name: str, script: str = FOREVER, **given: Any) -> None:
        self.create("Pod", name, pod_spec(script, **given), metadata={"labels": {"app": name}})

    def deployment(self, name: str, script: str = FOREVER, *, replicas: int = 1, **given: Any) -> None:
        own: Document = {
            key: given.pop(key)
            for key in (
                "strategy",
                "minReadySeconds",
                "progressDeadlineSeconds",
                "revisionHistoryLimit",
                "paused",
            )
            if key in given
        }
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec(script, **given)},
            **own,
        }
        self.create("Deployment", name, spec)

    def change(self, name: str, **container: Any) -> None:
        """Another template: the container's fields are replaced."""
        found = self.get("Deployment", name)
        assert found is not None
        main = {**found["spec"]["template"]["spec"]["containers"][0], **container}
        self.patch("Deployment", name, {"spec": {"template": {"spec": {"containers": [main]}}}})

    def job(self, name: str, script: str, **given: Any) -> None:
        restart = given.pop("restartPolicy", "Never")
        self.create("Job", name, {"template": {"spec": pod_spec(script, restartPolicy=restart)}, **given})

    # -- waiting

    def until(self, what: str, holds: Callable[[], object], within: float = WITHIN) -> None:
        eventually_sync(holds, within=within, what=f"{what} in {self.namespace}")

    def until_object(self, kind: str, name: str, holds: Callable[[Document], object]) -> None:
        def probe() -> bool:
            found = self.get(kind, name)
            assert found is not None, f"no {kind} {name}"
            assert holds(found), found.get("status")
            return True

        self.until(f"{kind} {name}", probe)

    def until_gone(self, kind: str, name: str) -> None:
        self.until(f"{kind} {name} gone", lambda: self.get(kind, name) is None)

    def until_complete(self, name: str) -> None:
        """The rollout of a Deployment has ended, and so have the pods that it replaced."""

        def complete(found: Document) -> bool:
            status, wanted = found.get("status", {}), found["spec"]["replicas"]
            counts = [status.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas")]
            return counts == [wanted] * 3 and status.get("observedGeneration") == found["metadata"]["generation"]

        self.until_object("Deployment", name, complete)
        self.until("old pods gone", lambda: not any(is_deleting(pod) for pod in self.list("Pod")))

    def until_condition(self, kind: str, name: str, condition: str, status: str, reason: str = "") -> None:
        def holds(found: Document) -> bool:
            return any(
                one["type"] == condition and one["status"] == status and (not reason or one.get("reason") == reason)
                for one in found.get("status", {}).get("conditions", [])
            )

        self.until_object(kind, name, holds)

    def until_phase(self, kind: str, name: str, phase: str) -> None:
        self.until_object(kind, name, lambda found: found.get("status", {}).get("phase") == phase)

    def until_ready(self, name: str) -> None:
        self.until_condition("Pod", name, "Ready", "True")

    def until_waiting(self, name: str, reason: str) -> None:
        def holds(found: Document) -> bool:
            status = found.get("status", {})
            states = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
            return any(one["state"].get("waiting", {}).get("reason") == reason for one in states)

        self.until_object("Pod", name, holds)

    def until_event(self, name: str, reason: str, words: str = "") -> None:
        def holds() -> bool:
            return any(
                one["involvedObject"]["name"].startswith(name) and one["reason"] == reason and words in one["message"]
                for one in self.list("Event")
            )

        self.until(f"event {reason} of {name}", holds)

    def log(self, pod: str, container: str = "main", **parameters: str) -> str:
        query = "&".join(f"{key}={value}" for key, value in {"container": container, **parameters}.items())
        answer = self.server.request("GET", f"{self.path('Pod', pod)}/log?{query}")
        assert answer.status == HTTPStatus.OK, answer.body
        return str(answer.body)

    def until_log(self, pod: str, words: str, container: str = "main") -> None:
        def holds() -> bool:
            text = self.log(pod, container)
            assert words in text, text
            return True

        self.until(f"log of {pod}", holds)


def pod_spec(script: str, **given: Any) -> Document:
    """A pod with one container that runs a shell script; fields of the container are taken out of what is given."""
    fields = ("env", "envFrom", "image", "ports", "resources", "volumeMounts", "workingDir", "command", "lifecycle")
    probes = ("readinessProbe", "livenessProbe", "startupProbe", "terminationMessagePolicy")
    container = {key: given.pop(key) for key in (*fields, *probes) if key in given}
    return {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [{"name": "main", "image": IMAGE, "command": ["sh", "-c", script], **container}],
        **given,
    }


def is_deleting(obj: Document) -> bool:
    return "deletionTimestamp" in obj["metadata"]
