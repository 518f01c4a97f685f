"""What a user expects to find in a fresh cluster."""

from __future__ import annotations

from pathlib import Path

from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.documents import read
from gpu_runtime.local.apiserver.errors import Status
from gpu_runtime.local.apiserver.options import WriteOptions
from gpu_runtime.local.apiserver.store import Object

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
    """Creates what is missing; what is there stays as it is."""
    for name in NAMESPACES:
        _create(cluster, "", "namespaces", "", {"metadata": {"name": name}})
    for name, (value, text) in PRIORITY_CLASSES.items():
        _create(
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
    _create(cluster, "", "services", "default", service)


def _create(cluster: Cluster, group: str, plural: str, namespace: str, document: Object) -> None:
    kind = cluster.registry.find(group, "v1", plural)
    assert kind is not None
    if cluster.store.get(kind.resource, kind.key(namespace, document["metadata"]["name"])) is not None:
        return
    cluster.writer.create(kind, namespace, read(kind, document, "Strict", []), WriteOptions(), [])


class NamespaceFurniture:
    """Puts the default ServiceAccount and the CA's ConfigMap into every namespace."""

    def __init__(self, cluster: Cluster, ca: Path) -> None:
        self._cluster = cluster
        self._ca = ca.read_text()

    def furnish(self, namespace: str) -> None:
        ca = {
            "metadata": {
                "name": "kube-root-ca.crt",
                "annotations": {
                    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver "
                    "when using internal endpoints such as the internal service IP or kubernetes.default.svc. "
                    "No other usage is guaranteed across distributions of Kubernetes clusters."
                },
            },
            "data": {"ca.crt": self._ca},
        }
        for plural, document in (("serviceaccounts", {"metadata": {"name": "default"}}), ("configmaps", ca)):
            try:
                _create(self._cluster, "", plural, namespace, document)
            except Status:
                continue
