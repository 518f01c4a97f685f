"""Built-in kinds."""

from __future__ import annotations

from typing import Any, Self

from equipment.builders.base import Builder, new_document


class ConfigMapBuilder(Builder):
    def data(self, **entries: str) -> Self:
        return self.having(data=entries)


class DeploymentBuilder(Builder):
    def replicas(self, count: int) -> Self:
        return self.spec(replicas=count)

    def running(self, image: str, **container: Any) -> Self:
        """One container of this image."""
        template = self._document["spec"]["template"]
        containers = [{"name": "runtime", "image": image, **container}]
        return self.spec(template={**template, "spec": {**template.get("spec", {}), "containers": containers}})

    def available(self) -> Self:
        """As its controller reports it when every replica is ready, for the current generation."""
        count = self._document["spec"]["replicas"]
        return self.status(
            observedGeneration=self._document["metadata"].get("generation", 1),
            replicas=count,
            updatedReplicas=count,
            readyReplicas=count,
            availableReplicas=count,
        ).condition("Available", "True", "MinimumReplicasAvailable")

    def progressing(self) -> Self:
        return self.status(replicas=self._document["spec"]["replicas"], availableReplicas=0).condition(
            "Available", "False", "MinimumReplicasUnavailable"
        )


def a_namespace(name: str) -> Builder:
    return Builder(new_document("v1", "Namespace", name))


def a_config_map(name: str, namespace: str = "") -> ConfigMapBuilder:
    return ConfigMapBuilder(new_document("v1", "ConfigMap", name, namespace))


def a_service(name: str, namespace: str = "", port: int = 80) -> Builder:
    return Builder(new_document("v1", "Service", name, namespace)).spec(
        selector={"app": name}, ports=[{"name": "http", "port": port}]
    )


def a_deployment(name: str, namespace: str = "") -> DeploymentBuilder:
    """One replica of a placeholder; a real server takes it."""
    labels = {"app": name}
    builder = DeploymentBuilder(new_document("apps/v1", "Deployment", name, namespace))
    return builder.spec(
        replicas=1, selector={"matchLabels": labels}, template={"metadata": {"labels": labels}}
    ).running("busybox:1.36")
