"""The Deployment of a pool."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.config import ControllerManagerSettings, SpecSettings
from gpu_runtime.controllers.child_kinds.pod_template import PodTemplate
from gpu_runtime.controllers.child_kinds.workloads import (
    Deployment,
    DeploymentSpec,
    LabelSelector,
    RollingUpdate,
    Strategy,
)
from gpu_runtime.controllers.kept_template import digest, keep
from gpu_runtime.controllers.labels import CONTROLLED_BY
from gpu_runtime.controllers.pod_size import PodSize
from gpu_runtime.controllers.runtime_pod import RuntimePod
from gpu_runtime.controllers.stockpool.resources.names import child_meta, labels, selector

NOT_IN_PODS = ("replicas",)
"""Fields of the spec that no pod depends on: scaling restarts no pod."""


def pod_size(pool: StockPool) -> PodSize:
    """What each pod of the pool reserves. ValueError names the field that is not an amount."""
    return PodSize.parse(gpu=pool.spec.gpu, memory=pool.spec.memory)


def pod_template(pool: StockPool, size: PodSize, settings: ControllerManagerSettings) -> PodTemplate:
    """What each pod of the pool runs."""
    spec, flavour = pool.spec, settings.specs.get(pool.spec.specName, SpecSettings())
    return RuntimePod(
        labels={**labels(pool), CONTROLLED_BY: pool.metadata.uid},
        image=spec.image or settings.stock.image,
        size=size,
        environment={
            "SPEC_NAME": spec.specName,
            "POOL_NAME": pool.metadata.name,
            "GPU_COUNT": str(spec.gpu),
            "MEMORY_LIMIT": spec.memory or "",
        },
        grace_seconds=spec.template.terminationGracePeriodSeconds or settings.stock.terminationGracePeriodSeconds,
        priority_class=flavour.stockPriorityClassName or settings.stock.priorityClassName,
        settings=flavour,
        template=spec.template,
    ).build()


def deployment(
    pool: StockPool, size: PodSize, settings: ControllerManagerSettings, live: Deployment | None
) -> Deployment:
    """The Deployment that keeps the wanted number of pods. The pod template of `live` is kept if it fits."""
    kept = keep(
        live,
        generation=pool.metadata.generation,
        source=digest(pool.spec, without=NOT_IN_PODS),
        build=lambda: pod_template(pool, size, settings),
    )
    return Deployment(
        metadata=child_meta(pool, kept.annotation),
        spec=DeploymentSpec(
            replicas=pool.spec.replicas,
            selector=LabelSelector(matchLabels=selector(pool)),
            # No surge: when all GPUs are in use, the extra pod would wait for ever for the pod that it replaces.
            strategy=Strategy(type="RollingUpdate", rollingUpdate=RollingUpdate(maxSurge=0, maxUnavailable=1)),
            template=kept.template,
            revisionHistoryLimit=2,
        ),
    )
