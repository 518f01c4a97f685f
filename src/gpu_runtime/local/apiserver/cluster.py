"""The parts of one embedded API server, put together."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runtime.local.apiserver.admission import Chain
from gpu_runtime.local.apiserver.deleting import Deleter
from gpu_runtime.local.apiserver.environment import Environment
from gpu_runtime.local.apiserver.kinds import Registry
from gpu_runtime.local.apiserver.logs import LogSource
from gpu_runtime.local.apiserver.shells import ShellSource
from gpu_runtime.local.apiserver.store import Store
from gpu_runtime.local.apiserver.usage import UsageSource
from gpu_runtime.local.apiserver.writing import Writer


@dataclass
class Cluster:
    store: Store
    registry: Registry
    writer: Writer
    deleter: Deleter
    environment: Environment
    logs: LogSource
    shells: ShellSource | None = None
    """Runs commands in containers; None where the server has no node."""
    usage: UsageSource | None = None

    @classmethod
    def assemble(
        cls, store: Store, registry: Registry, admission: Chain, environment: Environment, logs: LogSource
    ) -> Cluster:
        return cls(
            store=store,
            registry=registry,
            writer=Writer(store, admission, environment),
            deleter=Deleter(store, admission, environment),
            environment=environment,
            logs=logs,
        )
