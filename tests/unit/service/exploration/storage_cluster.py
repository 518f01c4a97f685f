"""The cluster of the storage scene: an API in memory whose every call is one step, and Kubernetes, played."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from equipment.clock import FakeClock
from equipment.memory_api import Document, MemoryApi, _decoded, _guard, _key, _merge, refused
from gpu_runtime.api.meta.object import Key, Object
from gpu_runtime.kube import AlreadyExists, Query, Resource
from gpu_runtime.kube.client import document_of
from gpu_runtime.kube.decoding import Listing, Page
from unit.service.exploration.memory import Turn

T = TypeVar("T", bound=Object)


class StepwiseApi(MemoryApi):
    """Each call waits for its turn. A patch that changes nothing keeps the version, as on the real server."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._uids = 0

    async def get(self, resource: Resource[T], key: Key) -> T:
        await Turn(f"get {resource.kind} {key.name}")
        return await super().get(resource, key)

    async def list(self, query: Query[T]) -> Listing[T]:
        await Turn(f"list {query.resource.kind}")
        return await super().list(query)

    async def page(self, query: Query[T], *, limit: int = 500, token: str | None = None) -> Page[T]:
        found = await self.list(query)
        return Page(found.items, [], str(self._version), None)

    async def create(self, resource: Resource[T], obj: Object | Mapping[str, Any]) -> T:
        document = document_of(resource, obj)
        await Turn(f"create {resource.kind} {_key(document).name}")
        return _decoded(resource, self.add(document))

    async def replace(self, resource: Resource[T], obj: Object | Mapping[str, Any], *, subresource: str = "") -> T:
        document = document_of(resource, obj)
        await Turn(f"replace {resource.kind} {_key(document).name} {subresource}")
        live = self._live(resource, _key(document))
        _guard(live, document["metadata"])
        new = {**live, "status": document.get("status", {})} if subresource else document
        return _decoded(resource, self._store(new))

    async def patch(self, resource: Resource[T], key: Key, patch: Mapping[str, Any]) -> T:
        await Turn(f"patch {resource.kind} {key.name}")
        live = self._live(resource, key)
        _guard(live, patch.get("metadata", {}))
        if _merge(live, msgspec.to_builtins(patch)) == live:
            return _decoded(resource, live)
        return await super().patch(resource, key, patch)

    async def delete(self, resource: Resource[T], key: Key, **preconditions: Any) -> None:
        await Turn(f"delete {resource.kind} {key.name}")
        await super().delete(resource, key, **preconditions)

    def add(self, document: Document) -> Document:
        """Creates without a turn."""
        kind, key = document["kind"], _key(document)
        if (kind, key) in self.objects:
            raise refused(AlreadyExists, 409, f"{key} exists")
        self._uids += 1
        filled = {
            "uid": f"{key.name}-{self._uids}",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        return self._store({**document, "metadata": {**document["metadata"], **filled}})

    def change(self, document: Document, **parts: Any) -> None:
        """Writes without a turn; a changed spec counts as a new generation."""
        live = self.objects[document["kind"], _key(document)]
        new = {**live, **parts}
        if new.get("spec") != live.get("spec"):
            new["metadata"] = {**live["metadata"], "generation": live["metadata"]["generation"] + 1}
        if new != live:
            self._store(new)

    def drop(self, document: Document) -> None:
        with suppress(KeyError):
            del self.objects[document["kind"], _key(document)]
            self._version += 1

    def snapshot(self) -> tuple[dict[tuple[str, Key], Document], int, int]:
        """Everything that is there. Documents are never changed in place, so they need no copy."""
        return dict(self.objects), self._version, self._uids

    def restore(self, snapshot: tuple[dict[tuple[str, Key], Document], int, int]) -> None:
        objects, self._version, self._uids = snapshot
        self.objects = dict(objects)


class Kubernetes:
    """Deployment controller (Recreate), ReplicaSet controller, kubelet, garbage collector and volume binder, played."""

    def __init__(self, api: StepwiseApi) -> None:
        self.api = api

    async def run(self) -> None:
        """One pass. Each change is one step, and is decided when its turn comes."""
        await self._play("PersistentVolumeClaim", self._bind)
        await self._play("Deployment", self._roll_out)
        await self._play("ReplicaSet", self._scale)

    async def collect(self) -> None:
        """The garbage collector comes late: until then the children of a deleted object go on."""
        for kind in ("Deployment", "ReplicaSet", "Pod"):
            await self._play(kind, self._collect)

    async def _play(self, kind: str, act: Callable[[Document], None]) -> None:
        for document in self.api.of_kind(kind):
            await Turn(f"play {kind} {document['metadata']['name']}")
            live = self.api.objects.get((kind, _key(document)))
            if live is not None:
                act(live)

    def _bind(self, claim: Document) -> None:
        size = claim["spec"]["resources"]["requests"]["storage"]
        self.api.change(claim, status={"phase": "Bound", "capacity": {"storage": size}})
        self.api.change(claim, spec={**claim["spec"], "volumeName": "pv"})

    def _roll_out(self, deployment: Document) -> None:
        spec, meta = deployment["spec"], deployment["metadata"]
        name = f"{meta['name']}-{_digest(spec['template'])}"
        if deployment.get("status", {}).get("observedGeneration") != meta["generation"]:
            self._report(deployment, name)
            return
        self._report(deployment, name)
        old = [each for each in self._owned("ReplicaSet", deployment) if each["metadata"]["name"] != name]
        for each in old:
            if each["spec"]["replicas"]:
                self.api.change(each, spec={**each["spec"], "replicas": 0})
                return
        if any(self._owned("Pod", each) for each in old):
            return
        mine = [each for each in self._owned("ReplicaSet", deployment) if each["metadata"]["name"] == name]
        wanted = {"replicas": spec.get("replicas", 1), "template": spec["template"]}
        if mine:
            self.api.change(mine[0], spec=wanted)
            return
        self.api.add(_child(deployment, "ReplicaSet", name, wanted))

    def _report(self, deployment: Document, current: str) -> None:
        made = self._owned("ReplicaSet", deployment)
        pods = sum(len(self._owned("Pod", each)) for each in made if each["metadata"]["name"] == current)
        counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), pods)
        self.api.change(
            deployment,
            status={"observedGeneration": deployment["metadata"]["generation"], **counts}
            if pods
            else {"observedGeneration": deployment["metadata"]["generation"]},
        )

    def _scale(self, replica_set: Document) -> None:
        spec, meta = replica_set["spec"], replica_set["metadata"]
        if replica_set["status"].get("observedGeneration") != meta["generation"]:
            self.api.change(replica_set, status={"observedGeneration": meta["generation"]})
            return
        pods = self._owned("Pod", replica_set)
        if spec["replicas"] and not pods:
            self.api.add(_child(replica_set, "Pod", f"{meta['name']}-pod", spec["template"]["spec"]))
        elif pods and not spec["replicas"]:
            self.api.drop(pods[0])

    def _collect(self, document: Document) -> None:
        uid = document["metadata"]["ownerReferences"][0]["uid"]
        if not any(each["metadata"]["uid"] == uid for each in self.api.objects.values()):
            self.api.drop(document)

    def _owned(self, kind: str, owner: Document) -> list[Document]:
        uid = owner["metadata"]["uid"]
        return [
            each
            for each in self.api.of_kind(kind)
            if [ref["uid"] for ref in each["metadata"].get("ownerReferences", [])] == [uid]
        ]


def claims_of(pod: Document) -> set[str]:
    """Names of the claims that the pod mounts."""
    volumes = [volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes", [])]
    return {claim["claimName"] for claim in volumes if claim}


def _child(owner: Document, kind: str, name: str, spec: Document) -> Document:
    meta = owner["metadata"]
    template = owner["spec"]["template"]
    reference = {"apiVersion": "apps/v1", "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "apps/v1" if kind == "ReplicaSet" else "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{**reference, "controller": True}],
        },
        "spec": spec,
        "status": {},
    }


def _digest(template: Document) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:6]
