"""What runtime-api knows of a function: whether it exists, how its invocations are treated, why they wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.crds import GPU_FUNCTION
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction, GPUFunctionSpec
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.reasons import READY
from gpu_runtime.rest.errors import Clash, Missing
from gpu_runtime.serverless.messages import Retry
from gpu_runtime.serverless.subjects import Function
from gpu_runtime.service.reading import Reader
from gpu_runtime.service.views import reported_status

BY_FUNCTION = "function"


def by_function(unit: GPUUnit) -> Iterator[str]:
    """Index of units: the function that the unit is a worker of."""
    serverless = unit.spec.serverless
    if serverless.enabled and serverless.requestID:
        yield str(Function(unit.metadata.namespace, serverless.requestID))


@dataclass(frozen=True)
class Policy:
    """How the invocations of a function are treated. None: no limit of its own."""

    retry: Retry = field(default_factory=Retry)
    run_seconds: int | None = None
    queue_limit: int | None = None

    @classmethod
    def of(cls, spec: GPUFunctionSpec) -> Policy:
        retry = Retry(maxAttempts=spec.retry.maxAttempts, backoffSeconds=spec.retry.backoffSeconds)
        return cls(retry, spec.invocationTimeoutSeconds, spec.queueLimit)


@dataclass(frozen=True)
class Worker:
    """A worker of a function, as its unit's status describes it."""

    name: str
    phase: str
    reason: str
    message: str


class Functions:
    """Reads functions. A function is a GPUFunction, or static workers that name it."""

    def __init__(self, functions: Reader[GPUFunction], units: Reader[GPUUnit]) -> None:
        self._functions = functions
        self._units = units

    async def require(self, function: Function) -> Policy:
        """The policy of the function. Missing if there is no such function; Clash while it is being deleted."""
        key = Key(function.namespace, function.name)
        found = self._functions.cached(key)
        if found is None and any(map(_is_static, self._workers(function))):
            return Policy()
        if found is None:
            found = await self._functions.live(key)
        if found is None:
            raise Missing(
                "function",
                f"there is no function {function.name} in namespace {function.namespace}: create it first",
            )
        if found.metadata.deletionTimestamp is not None:
            raise Clash(f"function {function.name} is being deleted: it takes no more invocations")
        return Policy.of(found.spec)

    def blocked(self, function: Function) -> tuple[str, str] | None:
        """Reason and message if no worker of the function is ready; None if one is."""
        found = self._functions.cached(Key(function.namespace, function.name))
        workers = self.workers(function)
        if any(worker.phase == "Ready" for worker in workers):
            return None
        if found is None:
            return (workers[0].reason, workers[0].message) if workers else None
        ready = find_condition(found.status.conditions, READY)
        if ready is None or found.status.readyWorkers:
            return None
        return ready.reason, ready.message

    def workers(self, function: Function) -> list[Worker]:
        """The workers of the function that exist, by name."""
        found = (Worker(unit.metadata.name, *reported_status(unit)) for unit in self._workers(function))
        return sorted(found, key=lambda worker: worker.name)

    def _workers(self, function: Function) -> Iterator[GPUUnit]:
        return iter(self._units.store.find(BY_FUNCTION, str(function)))


def _is_static(unit: GPUUnit) -> bool:
    """Whether a user made the unit, and it can take invocations.

    Workers of a GPUFunction do not outlive it for long, and must not stand for it. Workers of a name with '_' get no
    credentials: what was accepted for it could not be delivered.
    """
    if "_" in (unit.spec.serverless.requestID or ""):
        return False
    return not any(owner.kind == GPU_FUNCTION.kind for owner in unit.metadata.ownerReferences)
