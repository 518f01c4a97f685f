"""The children of an object, by the builders that its reconciler calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.child_kinds.network import NETWORK_POLICIES, SERVICES
from gpu_runtime.controllers.child_kinds.volumes import CLAIMS
from gpu_runtime.controllers.child_kinds.workloads import DEPLOYMENTS, Deployment
from gpu_runtime.controllers.gpustorage.resources.claim import new_claim, wanted_size
from gpu_runtime.controllers.gpuunit.resources import deployment as unit_deployment
from gpu_runtime.controllers.gpuunit.resources.network_policy import network_policy
from gpu_runtime.controllers.gpuunit.resources.service import service as unit_service
from gpu_runtime.controllers.stockpool.resources import deployment as pool_deployment
from gpu_runtime.controllers.stockpool.resources.service import service as pool_service
from gpu_runtime.kube import Resource

TESTDATA = Path(__file__).parent / "testdata"
NAMES = sorted(path.name.removesuffix(".in.yaml") for path in TESTDATA.glob("*.in.yaml"))
KINDS: dict[str, Any] = {"GPUUnit": GPUUnit, "StockPool": StockPool, "GPUStorage": GPUStorage}

Child = tuple[Resource[Any], Any]


@dataclass(frozen=True)
class Case:
    """One object and the settings that it meets."""

    object: GPUUnit | StockPool | GPUStorage
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
        match self.object:
            case StockPool() as pool:
                built = _of_pool(pool, self.settings, live)
            case GPUStorage() as storage:
                built = [(CLAIMS, new_claim(storage, wanted_size(storage), self.settings))]
            case GPUUnit() as unit:
                built = _of_unit(unit, self.settings, live)
        return [(resource, child) for resource, child in built if child is not None]


def _of_pool(pool: StockPool, settings: ControllerManagerSettings, live: Deployment | None) -> list[Child]:
    size = pool_deployment.pod_size(pool)
    return [
        (DEPLOYMENTS, pool_deployment.deployment(pool, size, settings, live)),
        (SERVICES, pool_service(pool)),
    ]


def _of_unit(unit: GPUUnit, settings: ControllerManagerSettings, live: Deployment | None) -> list[Child]:
    size = unit_deployment.pod_size(unit)
    return [
        (DEPLOYMENTS, unit_deployment.deployment(unit, size, settings, live)),
        (SERVICES, unit_service(unit, settings)),
        (NETWORK_POLICIES, network_policy(unit, settings)),
    ]
