"""Drives one GPUFunction toward its spec and its queue."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from gpu_runtime.activator.caches import Caches
from gpu_runtime.activator.consumers import Consumers
from gpu_runtime.activator.credentials import Credentials
from gpu_runtime.activator.deletion import Deletion
from gpu_runtime.activator.handlers import Handlers
from gpu_runtime.activator.kinds import GPU_FUNCTIONS
from gpu_runtime.activator.readiness import Blocked, Readiness, readiness, status
from gpu_runtime.activator.scaling import Scaling, policy_of
from gpu_runtime.activator.static_workers import StaticWorkers
from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.function_rules import function_errors
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.reasons import FUNCTION_BROKER_UNAVAILABLE, FUNCTION_INVALID_SPEC, READY
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.events import Recorder
from gpu_runtime.kube.finalizer import Finalizer
from gpu_runtime.kube.status_writer import StatusWriter
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.subjects import Function

BROKER_SECONDS = 2.0


@dataclass(frozen=True)
class FunctionReconciler:
    """Reads caches and the backlog. Writes only differences."""

    caches: Caches
    backlog: Backlog
    finalizer: Finalizer[GPUFunction]
    consumers: Consumers
    handlers: Handlers
    credentials: Credentials
    scaling: Scaling
    deletion: Deletion
    static_workers: StaticWorkers
    status: StatusWriter[GPUFunction]
    recorder: Recorder | None = None

    async def reconcile(self, key: Key) -> Result:
        if not self.backlog.loaded:
            return Result(BROKER_SECONDS)  # without the backlog every function would seem idle
        function = self.caches.functions.get(key)
        if function is None:
            return await self._absent(key)
        if function.metadata.deletionTimestamp is not None and self.finalizer.name not in function.metadata.finalizers:
            return Result()  # our work is done: it waits for finalizers of others
        if function.metadata.deletionTimestamp is None:
            function = await self.finalizer.add(function)  # before the first side effect
        try:
            outcome, delay = await self._phases(function)
        except Blocked as blocked:
            outcome, delay = blocked.outcome, blocked.seconds
        except BrokerError as error:
            outcome = Readiness("progressing", FUNCTION_BROKER_UNAVAILABLE, str(error))
            delay = BROKER_SECONDS
        await self._report(function, outcome)
        return Result(delay)

    async def _absent(self, key: Key) -> Result:
        self.scaling.forget(key)
        try:
            return await self.static_workers.reconcile(key)
        except BrokerError as error:
            structlog.get_logger("activator").info("waiting for the broker", key=str(key), problem=str(error))
            return Result(BROKER_SECONDS)

    async def _phases(self, function: GPUFunction) -> tuple[Readiness, float | None]:
        if self.backlog.problem:
            raise BrokerError(self.backlog.problem)  # a decision on an old backlog could end workers that are needed
        if function.metadata.deletionTimestamp is not None:
            return await self.deletion.finish(function)
        name = Function(*function.metadata.key)
        _check_spec(function)
        await self.credentials.ensure(name, function)
        await self.consumers.ensure(name)
        await self.handlers.ensure(function)
        delay = await self.scaling.scale(function)
        seen = self.scaling.observe(function)
        await self.handlers.remove_old(function, seen)
        return readiness(seen, policy_of(function.spec).needed(self.scaling.load(function))), delay

    async def _report(self, function: GPUFunction, outcome: Readiness) -> None:
        current = self.caches.functions.get(function.metadata.key)
        if current is None or current.metadata.uid != function.metadata.uid:
            return
        condition = outcome.condition(current.metadata.generation)
        new = status(current, self.scaling.observe(current), outcome)
        if await self.status.write(current, new, [condition]):
            self._tell(current, outcome)

    def _tell(self, function: GPUFunction, outcome: Readiness) -> None:
        before = find_condition(function.status.conditions, READY)
        if before is not None and before.reason == outcome.reason:
            return
        structlog.get_logger("status").info(
            "now", key=str(function.metadata.key), state=outcome.state, reason=outcome.reason, message=outcome.message
        )
        if self.recorder is not None and outcome.state == "failed":
            self.recorder.event(GPU_FUNCTIONS, function, outcome.reason, outcome.message, type="Warning")


def _check_spec(function: GPUFunction) -> None:
    """Blocked until the spec changes, if it was written with kubectl and breaks a rule."""
    errors = [f"spec.{error.field}: {error.message}" for error in function_errors(function.spec)]
    if errors:
        raise Blocked(Readiness("failed", FUNCTION_INVALID_SPEC, "; ".join(errors)))
