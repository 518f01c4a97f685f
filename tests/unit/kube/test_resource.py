"""Where a kind is served."""

from __future__ import annotations

from gpu_runtime.kube import Resource
from gpu_runtime.kube.builtin import CONFIG_MAPS, NAMESPACES, ConfigMap

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", ConfigMap)


def test_a_path_names_the_collection_the_object_or_its_subresource() -> None:
    assert CONFIG_MAPS.path() == "/api/v1/configmaps"
    assert CONFIG_MAPS.path("a") == "/api/v1/namespaces/a/configmaps"
    assert DEPLOYMENTS.path("a", "b") == "/apis/apps/v1/namespaces/a/deployments/b"
    assert DEPLOYMENTS.path("a", "b", "status") == "/apis/apps/v1/namespaces/a/deployments/b/status"


def test_a_kind_without_namespaces_has_none_in_its_path() -> None:
    assert NAMESPACES.path("ignored", "a") == "/api/v1/namespaces/a"


def test_no_name_leads_out_of_its_place_in_the_path() -> None:
    assert CONFIG_MAPS.path("a/b", "../c?d#e%") == "/api/v1/namespaces/a%2Fb/configmaps/..%2Fc%3Fd%23e%25"
