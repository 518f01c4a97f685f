"""All manifests that are generated from the types, by path under `config/`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpu_runtime.api.crd import definition
from gpu_runtime.api.meta.object import wire
from gpu_runtime.api.rbac import (
    LEADER_ELECTION_LEASE,
    Manifest,
    Permissions,
    kind_roles,
    leader_election,
    process_manifests,
    role,
)
from gpu_runtime.api.v1alpha1.crds import KINDS
from gpu_runtime.api.v1alpha1.group import GROUP, VERSION
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from gpu_runtime.api.v1alpha1.samples import SAMPLES

PREFIX = "gpu-runtime"

Files = Mapping[str, list[Manifest]]


def manifests(processes: Iterable[Permissions] = ()) -> Files:
    """All generated files, by their path under `config/`."""
    return {**_crds(), **_rbac(processes), **_samples()}


def _crds() -> Files:
    files = {f"bases/{GROUP}_{kind.plural}.yaml": [definition(kind)] for kind in KINDS}
    return _folder("crd", files)


def _rbac(processes: Iterable[Permissions]) -> Files:
    election = role(f"{PREFIX}-leader-election", SYSTEM_NAMESPACE, leader_election(LEADER_ELECTION_LEASE))
    files = {"leader_election_role.yaml": [election]}
    for kind in KINDS:
        for audience, manifest in kind_roles(kind, PREFIX).items():
            files[f"{kind.singular}_{audience}_role.yaml"] = [manifest]
    declared = sorted(processes, key=lambda permissions: permissions.process)
    if documents := [
        document for process in declared for document in process_manifests(process, PREFIX, SYSTEM_NAMESPACE)
    ]:
        files["role.yaml"] = documents
    return _folder("rbac", files)


def _samples() -> Files:
    files = {f"runtime_{VERSION}_{name}.yaml": [_sample(wire(sample))] for name, sample in SAMPLES.items()}
    return _folder("samples", files)


def _sample(document: Manifest) -> Manifest:
    """The sample without its empty status, as users write manifests."""
    return {key: value for key, value in document.items() if value != {}}


def _folder(folder: str, files: Mapping[str, list[Manifest]]) -> Files:
    kustomization: Manifest = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(files),
    }
    return {f"{folder}/{path}": documents for path, documents in files.items()} | {
        f"{folder}/kustomization.yaml": [kustomization]
    }
