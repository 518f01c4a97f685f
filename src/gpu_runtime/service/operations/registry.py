"""The operation types that this process knows, each with its executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

import structlog

from gpu_runtime.api.v1alpha1.operation import Operation, OperationType
from gpu_runtime.rest.views import JobType
from gpu_runtime.service.operations.executor import AnyExecutor


class Registry:
    """Exactly one executor per operation type; a missing or second one is an error when the process starts."""

    def __init__(self, executors: Iterable[AnyExecutor]) -> None:
        self._executors = tuple(executors)
        self._by_type: dict[OperationType, AnyExecutor] = {each.operation_type: each for each in self._executors}
        self._by_job_type: dict[JobType, AnyExecutor] = {each.job_type: each for each in self._executors}
        self._log = structlog.get_logger("operations")
        if not len(self._executors) == len(self._by_type) == len(self._by_job_type):
            raise ValueError(f"two executors of one type: {[each.operation_type for each in self._executors]}")
        missing = {*get_args(OperationType), *get_args(JobType)} - {*self._by_type, *self._by_job_type}
        if missing:
            raise ValueError(f"operation types without an executor: {sorted(missing)}")

    def __iter__(self) -> Iterator[AnyExecutor]:
        return iter(self._executors)

    def of(self, record: Operation) -> AnyExecutor | None:
        """The executor of the record's type. None when another version of the API wrote it: the caller skips it."""
        executor = self._by_type.get(record.spec.type)
        if executor is None:
            self._log.warning("unknown operation type, skipped", name=record.metadata.name, type=record.spec.type)
        return executor

    def of_jobs(self, job_type: JobType) -> AnyExecutor:
        return self._by_job_type[job_type]
