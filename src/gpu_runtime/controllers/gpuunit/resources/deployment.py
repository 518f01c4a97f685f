"""The Deployment of a unit, and the pod in it: a placeholder for stock, the user's program for an active unit."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.provenance import source_of
from gpu_runtime.api.v1alpha1.rules import primary_port
from gpu_runtime.config import ControllerManagerSettings, SpecSettings
from gpu_runtime.controllers.child_kinds.pod_template import PodTemplate
from gpu_runtime.controllers.child_kinds.workloads import Deployment, DeploymentSpec, LabelSelector, Strategy
from gpu_runtime.controllers.gpuunit.resources.names import child_meta, labels, selector
from gpu_runtime.controllers.gpuunit.resources.serverless import worker_pod
from gpu_runtime.controllers.gpuunit.role import is_stock
from gpu_runtime.controllers.kept_template import digest, keep
from gpu_runtime.controllers.labels import CONTROLLED_BY
from gpu_runtime.controllers.pod_size import PodSize
from gpu_runtime.controllers.runtime_pod import RuntimePod, accepts_connections


def pod_size(unit: GPUUnit) -> PodSize:
    """What the unit's pod reserves. ValueError names the field that is not an amount."""
    return PodSize.parse(gpu=unit.spec.gpu, memory=unit.spec.memory, cpu=unit.spec.cpu)


def stock_pod(unit: GPUUnit, size: PodSize, settings: ControllerManagerSettings) -> PodTemplate:
    """A pod that reserves the resources and ends at once when it is told to."""
    flavour = settings.specs.get(unit.spec.specName, SpecSettings())
    return RuntimePod(
        labels=_pod_labels(unit),
        image=settings.stock.image,
        size=size,
        environment=_environment(unit),
        grace_seconds=settings.stock.terminationGracePeriodSeconds,
        priority_class=flavour.stockPriorityClassName or settings.stock.priorityClassName,
        settings=flavour,
        shared_memory=False,
    ).build()


def active_pod(unit: GPUUnit, size: PodSize, settings: ControllerManagerSettings) -> PodTemplate:
    """The user's pod. It prefers the node of the stock that it consumed."""
    spec, source = unit.spec, source_of(unit)
    flavour = settings.specs.get(spec.specName, SpecSettings())
    port = primary_port(spec.access, spec.template.ports)
    plain = RuntimePod(
        labels=_pod_labels(unit),
        image=spec.image or settings.stock.image,
        size=size,
        environment=_environment(unit),
        grace_seconds=spec.template.terminationGracePeriodSeconds or settings.units.terminationGracePeriodSeconds,
        priority_class=flavour.priorityClassName or settings.units.priorityClassName,
        settings=flavour,
        template=spec.template,
        readiness=accepts_connections(port) if port is not None and port.protocol == "TCP" else None,
        mounts=spec.storageMounts,
        preferred_node=source.node if source is not None else "",
    )
    return (worker_pod(plain, unit, settings) if spec.serverless.enabled else plain).build()


def deployment(
    unit: GPUUnit, size: PodSize, settings: ControllerManagerSettings, live: Deployment | None
) -> Deployment:
    """The Deployment that keeps the unit's one pod running. The pod template of `live` is kept if it fits."""
    build = stock_pod if is_stock(unit, settings) else active_pod
    kept = keep(
        live,
        generation=unit.metadata.generation,
        source=digest(unit.spec),
        build=lambda: build(unit, size, settings),
    )
    return Deployment(
        metadata=child_meta(unit, kept.annotation),
        spec=DeploymentSpec(
            replicas=1,
            selector=LabelSelector(matchLabels=selector(unit)),
            strategy=Strategy(type="Recreate"),  # two pods cannot hold one GPU or one volume
            template=kept.template,
            revisionHistoryLimit=2,
        ),
    )


def _pod_labels(unit: GPUUnit) -> dict[str, str]:
    return {**labels(unit), CONTROLLED_BY: unit.metadata.uid}


def _environment(unit: GPUUnit) -> dict[str, str]:
    spec = unit.spec
    return {
        "SPEC_NAME": spec.specName,
        "UNIT_NAME": unit.metadata.name,
        "GPU_COUNT": str(spec.gpu),
        "MEMORY_LIMIT": spec.memory or "",
    }
