"""Manifests come from the types and from what processes declare; nothing else is in them."""

from __future__ import annotations

from gpu_runtime.api.manifests import manifests
from gpu_runtime.api.rbac import READ, Permissions, Rule, kind_roles, process_manifests
from gpu_runtime.api.v1alpha1.crds import GPU_UNIT, KINDS, OPERATION, STOCK_POOL

CONTROLLER = Permissions(
    "controller-manager",
    cluster=(Rule("apps", ("deployments",), (*READ, "create")),),
    namespaces={"gpu-runtime-system": (Rule("coordination.k8s.io", ("leases",), ("get",), names=("lease",)),)},
)


def test_each_kind_has_a_definition_three_roles_and_a_sample() -> None:
    files = manifests()
    for kind in KINDS:
        assert f"crd/bases/runtime.lokiwager.io_{kind.plural}.yaml" in files
        assert f"samples/runtime_v1alpha1_{kind.singular}.yaml" in files
        assert {f"rbac/{kind.singular}_{audience}_role.yaml" for audience in ("admin", "editor", "viewer")} <= set(
            files
        )


def test_each_folder_lists_all_its_files_for_kustomize() -> None:
    files = manifests([CONTROLLER])
    for folder in ("crd", "rbac", "samples"):
        resources = files[f"{folder}/kustomization.yaml"][0]["resources"]
        inside = [path.removeprefix(f"{folder}/") for path in files if path.startswith(f"{folder}/")]
        assert resources == sorted(path for path in inside if path != "kustomization.yaml")


def test_a_process_that_declares_nothing_gets_nothing() -> None:
    assert "rbac/role.yaml" not in manifests()
    assert [document["kind"] for document in process_manifests(Permissions("idle"), "gpu-runtime", "system")] == [
        "ServiceAccount"
    ]


def test_the_declared_rules_of_a_process_are_bound_to_its_account() -> None:
    documents = manifests([CONTROLLER])["rbac/role.yaml"]
    assert [document["kind"] for document in documents] == [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ]
    _, cluster_role, binding, role, _ = documents
    assert cluster_role["rules"] == [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch", "create"]}
    ]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "gpu-runtime-controller-manager", "namespace": "gpu-runtime-system"}
    ]
    assert role["metadata"] == {"name": "gpu-runtime-controller-manager", "namespace": "gpu-runtime-system"}
    assert role["rules"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["get"],
            "resourceNames": ["lease"],
        }
    ]


def test_processes_stand_in_one_order_however_they_were_found() -> None:
    other = Permissions("activator")
    assert manifests([CONTROLLER, other]) == manifests([other, CONTROLLER])


def test_a_viewer_can_neither_write_nor_scale() -> None:
    viewer = kind_roles(STOCK_POOL, "gpu-runtime")["viewer"]["rules"]
    assert viewer == [
        {"apiGroups": ["runtime.lokiwager.io"], "resources": ["stockpools"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["runtime.lokiwager.io"], "resources": ["stockpools/status"], "verbs": ["get"]},
    ]


def test_roles_name_only_subresources_that_the_kind_has() -> None:
    def resources(name: str) -> list[object]:
        kind = {kind.kind: kind for kind in (STOCK_POOL, GPU_UNIT, OPERATION)}[name]
        rules = kind_roles(kind, "gpu-runtime")["editor"]["rules"]
        assert isinstance(rules, list)
        return [resource for rule in rules for resource in rule["resources"]]

    assert resources("StockPool") == ["stockpools", "stockpools/status", "stockpools/scale"]
    assert resources("GPUUnit") == ["gpuunits", "gpuunits/status"]
    assert resources("Operation") == ["operations"]
