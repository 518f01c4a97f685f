"""Jobs: operations as clients see them. Read live, because a stale cache would answer 404 right after a 202."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.errors import BadRequest, Gone
from gpu_runtime.rest.errors import Clash, Missing
from gpu_runtime.rest.views import Job, JobType
from gpu_runtime.service.cluster import OPERATIONS, Cluster
from gpu_runtime.service.listing import ListPage
from gpu_runtime.service.operations.records import Operations
from gpu_runtime.service.operations.registry import Registry
from gpu_runtime.service.views import job_view


class Jobs:
    """The use cases of jobs."""

    def __init__(self, cluster: Cluster, operations: Operations, registry: Registry) -> None:
        self._cluster = cluster
        self._operations = operations
        self._registry = registry

    async def get(self, operation_id: str, type_: JobType | None = None) -> Job:
        """The job of that type; without a type, the newest job with this id: each type has its own ids."""
        executors = [self._registry.of_jobs(type_)] if type_ else list(self._registry)
        found = [
            (record, executor)
            for executor in executors
            if (record := await self._operations.find(executor.operation_type, operation_id)) is not None
        ]
        if not found:
            raise Missing("job", f"there is no job with operationID {operation_id}")
        record, executor = max(found, key=lambda each: _age(each[0]))
        return job_view(record, executor, deleted=await executor.deleted(record))

    async def list(self, *, limit: int, token: str) -> ListPage[Job]:
        query = Query(OPERATIONS, self._operations.namespace)
        try:
            page = await self._cluster.page(query, limit=limit, token=token or None)
        except (BadRequest, Gone) as error:
            raise Clash("the continue token has expired: list again without continue") from error
        known = [(record, executor) for record in page.items if (executor := self._registry.of(record)) is not None]
        return ListPage([job_view(record, executor) for record, executor in known], page.token or "")


def _age(record: Operation) -> tuple[str, int]:
    created = record.metadata.creationTimestamp
    return (created.isoformat() if created else "", int(record.metadata.resourceVersion or 0))
