"""Why something does not run is said in the words of its cause, by the object and by the API, until it is repaired."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from equipment.waiting import eventually_sync
from gpu_runtime.api.v1alpha1.group import API_VERSION
from local.walkthroughs.site import OURS, Document, Site, ready_condition

IMAGE, MISSING_IMAGE = "python:3.12", "127.0.0.1:1/missing:1"  # where no registry listens
RUNS = {"command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]}  # and ends when it is told to
CRASHES = {"command": ["sh", "-c", "echo no such model >&2; exit 3"]}
MERGE = "application/merge-patch+json"
GPU = "nvidia.com/gpu"
NODES = "/api/v1/nodes"
NAMESPACE = "runtime-instance"
QUOTAS = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"


@dataclass(frozen=True)
class Thing:
    """A unit or a pool: where it is to Kubernetes and to the API, and what it says when it runs."""

    site: Site
    kind: str
    name: str

    @property
    def collection(self) -> str:
        return f"{OURS}/namespaces/{NAMESPACE}/{self.kind.lower()}s"

    @property
    def view(self) -> str:
        collection = "gpu-units" if self.kind == "GPUUnit" else "operator/stockpools"
        return f"/{collection}/{self.name}?namespace={NAMESPACE}"

    def create(self, **spec: Any) -> None:
        pool = {"replicas": 1} if self.kind == "StockPool" else {}
        whole = {"specName": "g1.1", "image": IMAGE, "template": RUNS, **pool, **spec}
        meta = {"name": self.name, "namespace": NAMESPACE}
        body = {"apiVersion": API_VERSION, "kind": self.kind, "metadata": meta, "spec": whole}
        made = self.site.kubernetes.request("POST", self.collection, body)
        assert made.status == 201, made

    def change(self, **spec: Any) -> None:
        path = f"{self.collection}/{self.name}"
        assert self.site.kubernetes.request("PATCH", path, {"spec": spec}, MERGE).status == 200

    def delete(self) -> None:
        path = f"{self.collection}/{self.name}"
        assert self.site.kubernetes.request("DELETE", path).status == 200
        eventually_sync(lambda: self.site.get(path) is None, what=f"{path} is gone")

    def until_failed(self, cause: str) -> None:
        """Not ready for this cause, in its status and in what the API shows."""
        ready = self._until("Failed")
        assert (ready["status"], ready["reason"]) == ("False", "PodStartupFailed")
        self._until_told(cause)

    def until_waiting(self, reason: str, *causes: str) -> None:
        """Not ready yet for this reason, and nothing has failed."""
        eventually_sync(
            lambda: self._until("Progressing")["reason"] == reason, what=f"{self.kind} {self.name} is {reason}"
        )
        for cause in causes:
            self._until_told(cause)

    def until_ready(self) -> None:
        """Ready, and no word is left of what kept it."""
        ready = self._until("Ready")
        assert ready["status"] == "True"
        assert ready["reason"] == ("UnitReady" if self.kind == "GPUUnit" else "DeploymentReady")
        self._until_told(ready["message"])

    def _until(self, phase: str) -> Document:
        return ready_condition(self.site.until_phase(f"{self.collection}/{self.name}", phase))

    def _until_told(self, words: str) -> None:
        """A cause may be told in one way first and in another after: a pull that failed is then a pull put off."""

        def told() -> bool:
            ready = ready_condition(self.site.must_get(f"{self.collection}/{self.name}"))
            assert words in ready["message"], ready
            status, answer = self.site.up.call("GET", self.view)
            assert status == 200
            shown = answer["data"]
            assert (shown["reason"], shown["message"]) == (ready["reason"], ready["message"])
            return True

        eventually_sync(told, what=f"{self.kind} {self.name} says: {words}")


def both(site: Site, name: str) -> list[Thing]:
    return [Thing(site, kind, f"{name}-{kind.lower()}") for kind in ("GPUUnit", "StockPool")]


@pytest.mark.parametrize(
    ("broken", "cause", "repaired"),
    [
        ({"image": MISSING_IMAGE}, f'failed to pull and unpack image "{MISSING_IMAGE}"', {"image": IMAGE}),
        ({"template": CRASHES}, "exited with code 3: no such model", {"template": RUNS}),
    ],
    ids=["image", "crash"],
)
def test_what_is_wrong_with_a_spec_is_said_until_the_spec_is_right(
    failing_site: Site, broken: Document, cause: str, repaired: Document, request: pytest.FixtureRequest
) -> None:
    things = both(failing_site, request.node.callspec.id)
    for thing in things:
        thing.create(**broken)
    for thing in things:
        thing.until_failed(cause)
        thing.change(**repaired)
    for thing in things:
        thing.until_ready()
        thing.delete()


def test_what_fits_no_node_says_so_until_there_is_room(failing_site: Site) -> None:
    free = int(failing_site.items(NODES)[0]["status"]["allocatable"][GPU])
    assert len(failing_site.items(NODES)) == 1
    hog = Thing(failing_site, "GPUUnit", "hog")
    hog.create(gpu=free)
    hog.until_ready()
    unit, pool = both(failing_site, "waits")
    unit.create(gpu=1)
    pool.create(gpu=free + 1)
    unit.until_failed(f"Insufficient {GPU}")
    pool.until_failed(f"Insufficient {GPU}")
    hog.delete()
    unit.until_ready()
    pool.change(gpu=1)
    pool.until_ready()
    for thing in (unit, pool):
        thing.delete()


def test_what_a_quota_refuses_says_so_until_there_is_room(failing_site: Site) -> None:
    things = both(failing_site, "refused")
    with quota(failing_site):
        for thing in things:
            thing.create()
        for thing in things:
            thing.until_failed("exceeded quota: tight")
    for thing in things:
        thing.until_ready()
        thing.delete()


@contextmanager
def quota(site: Site) -> Iterator[None]:
    """No more pods for as long as the block."""
    path = f"{QUOTAS}/tight"
    body = {"metadata": {"name": "tight"}, "spec": {"hard": {"pods": "0"}}}
    assert site.kubernetes.request("POST", QUOTAS, body).status == 201
    try:
        eventually_sync(lambda: site.must_get(path).get("status", {}).get("hard"), what="the quota is in force")
        yield
    finally:
        site.kubernetes.request("DELETE", path)
