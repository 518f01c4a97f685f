"""An installation under a walkthrough, and what its cluster holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipment.installation import Up, running_up
from equipment.waiting import eventually_sync
from equipment.walkthrough import PRINTED_MEMORY, Shell, Walkthrough
from realkube.api import Access

OURS = "/apis/runtime.lokiwager.io/v1alpha1"
FAKE_NODE = "kwok.x-k8s.io/node"  # annotation of nodes whose pods run no program

Document = dict[str, Any]


@dataclass(frozen=True)
class Site:
    up: Up
    shell: Shell
    kubernetes: Access

    def walkthrough(self, name: str) -> Walkthrough:
        return Walkthrough(Path(__file__).with_name(name), self.shell)

    def get(self, path: str) -> Document | None:
        """The object; None when there is none."""
        answer = self.kubernetes.request("GET", path)
        assert answer.status in (200, 404), answer
        found: Document | None = answer.body if answer.status == 200 else None
        return found

    def must_get(self, path: str) -> Document:
        found = self.get(path)
        assert found is not None, f"{path} is not there"
        return found

    def items(self, path: str) -> list[Document]:
        found: list[Document] = self.must_get(path)["items"]
        return found

    def until_phase(self, path: str, phase: str) -> Document:
        """The object when its status says so."""

        def probe() -> Document:
            found = self.must_get(path)
            assert found.get("status", {}).get("phase") == phase, found.get("status")
            return found

        return eventually_sync(probe, what=f"{path} is {phase}")

    def runs_programs(self) -> bool:
        """Whether pods really run here, or only in the words of fake nodes."""
        return not any(FAKE_NODE in node["metadata"].get("annotations", {}) for node in self.items("/api/v1/nodes"))

    @staticmethod
    def clear(kubernetes: Access, *kinds: str) -> None:
        """Removes what earlier runs left of these kinds."""
        for plural in kinds:
            listed = kubernetes.request("GET", f"{OURS}/{plural}")
            for each in listed.body["items"] if listed.status == 200 else ():
                meta = each["metadata"]
                kubernetes.request("DELETE", f"{OURS}/namespaces/{meta['namespace']}/{plural}/{meta['name']}")
            eventually_sync(
                lambda plural=plural: _empty(kubernetes, plural),  # type: ignore[misc]
                what=f"no {plural} are left",
            )


@contextmanager
def fresh_site(
    folder: Path, left_out: list[str], cluster: Path | None = None, memory: str = PRINTED_MEMORY
) -> Iterator[Site]:
    """An installation without a past, on the embedded cluster or on the one of a kubeconfig."""
    if cluster is not None:
        Site.clear(Access.of_kubeconfig(cluster, folder), "gpuunits", "stockpools", "operations")
    options = ("--kubeconfig", str(cluster)) if cluster is not None else ()
    with running_up(folder / "data", *options) as up:
        if cluster is not None:
            Site.clear(up.kubernetes(folder), "gpustorages")  # their controller deletes the data
        yield Site(up, Shell(up.url, up.kubeconfig, folder, memory, left_out), up.kubernetes(folder))


def _empty(kubernetes: Access, plural: str) -> bool:
    listed = kubernetes.request("GET", f"{OURS}/{plural}")
    return listed.status == 404 or not listed.body["items"]


def ready_condition(document: Document) -> Document:
    found: Document = next(each for each in document["status"]["conditions"] if each["type"] == "Ready")
    return found
