"""The children that the builders make of an object, as the reconcilers put them together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.envelope import Envelope
from gpu_runtime.controllers.gpuunit.resources import deployment as unit_deployment
from gpu_runtime.controllers.gpuunit.resources.network_policy import network_policy
from gpu_runtime.controllers.gpuunit.resources.service import service as unit_service
from gpu_runtime.controllers.gpuunit.role import is_stock
from gpu_runtime.controllers.kept_template import digest, keep
from gpu_runtime.controllers.kinds.network import NETWORK_POLICIES, SERVICES
from gpu_runtime.controllers.kinds.workloads import DEPLOYMENTS, Deployment
from gpu_runtime.controllers.stockpool.resources import deployment as pool_deployment
from gpu_runtime.controllers.stockpool.resources.service import service as pool_service
from gpu_runtime.kube import Resource

TESTDATA = Path(__file__).parent / "testdata"
NAMES = sorted(path.name.removesuffix(".in.yaml") for path in TESTDATA.glob("*.in.yaml"))
KINDS: dict[str, Any] = {"GPUUnit": GPUUnit, "StockPool": StockPool}

Child = tuple[Resource[Any], Any]


@dataclass(frozen=True)
class Case:
    """One object and the settings that it meets."""

    object: GPUUnit | StockPool
    settings: ControllerManagerSettings

    @classmethod
    def read(cls, name: str) -> Case:
        document = yaml.safe_load((TESTDATA / f"{name}.in.yaml").read_text())
        kind = KINDS[document["object"]["kind"]]
        return cls(
            msgspec.convert(document["object"], kind),
            msgspec.convert(document.get("settings", {}), ControllerManagerSettings),
        )

    def children(self, live: Deployment | None = None) -> list[Child]:
        """What is to be there, beside the Deployment that is there already."""
        made = (
            self._of_pool(self.object, live) if isinstance(self.object, StockPool) else self._of_unit(self.object, live)
        )
        return [(resource, child) for resource, child in made if child is not None]

    def _of_pool(self, pool: StockPool, live: Deployment | None) -> list[Child]:
        envelope = Envelope.parse(gpu=pool.spec.gpu, memory=pool.spec.memory)
        kept = keep(
            live,
            generation=pool.metadata.generation,
            source=digest(pool.spec, without=pool_deployment.NOT_IN_PODS),
            build=lambda: pool_deployment.pod_template(pool, envelope, self.settings),
        )
        return [(DEPLOYMENTS, pool_deployment.deployment(pool, kept)), (SERVICES, pool_service(pool))]

    def _of_unit(self, unit: GPUUnit, live: Deployment | None) -> list[Child]:
        envelope = Envelope.parse(gpu=unit.spec.gpu, memory=unit.spec.memory, cpu=unit.spec.cpu)
        build = unit_deployment.stock_pod if is_stock(unit, self.settings) else unit_deployment.active_pod
        kept = keep(
            live,
            generation=unit.metadata.generation,
            source=digest(unit.spec),
            build=lambda: build(unit, envelope, self.settings),
        )
        return [
            (DEPLOYMENTS, unit_deployment.deployment(unit, kept)),
            (SERVICES, unit_service(unit, self.settings)),
            (NETWORK_POLICIES, network_policy(unit, self.settings)),
        ]
