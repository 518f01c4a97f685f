"""The objects that every new cluster has."""

from __future__ import annotations

from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.documents import read
from gpu_runtime.local.apiserver.options import WriteOptions
from gpu_runtime.local.apiserver.records import Object

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

PRIORITY_CLASSES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}


def bootstrap(cluster: Cluster, port: int) -> None:
    """Creates the missing objects. Does not change existing ones."""
    for name in NAMESPACES:
        create_missing(cluster, "", "namespaces", "", {"metadata": {"name": name}})
    for name, (value, text) in PRIORITY_CLASSES.items():
        create_missing(
            cluster,
            "scheduling.k8s.io",
            "priorityclasses",
            "",
            {"metadata": {"name": name}, "value": value, "description": text},
        )
    service = {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}], "clusterIP": "10.96.0.1"},
    }
    create_missing(cluster, "", "services", "default", service)


def create_missing(cluster: Cluster, group: str, plural: str, namespace: str, document: Object) -> None:
    """Creates an object unless one with its name exists."""
    kind = cluster.registry.find(group, "v1", plural)
    assert kind is not None
    if cluster.store.current(kind.resource, kind.key(namespace, document["metadata"]["name"])) is not None:
        return
    cluster.writer.create(kind, namespace, read(kind, document, "Strict", []), WriteOptions())
