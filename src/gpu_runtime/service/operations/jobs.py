"""Jobs: operations as their clients see them, read live, because a 404 right after a 202 would be a lie."""

from __future__ import annotations

from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.kube.client import Query
from gpu_runtime.kube.errors import BadRequest, Gone
from gpu_runtime.rest.errors import Clash, Missing
from gpu_runtime.rest.views import Job, JobType
from gpu_runtime.service.cluster import OPERATIONS, Cluster
from gpu_runtime.service.listing import Listed
from gpu_runtime.service.operations.created_objects import CreatedObjects
from gpu_runtime.service.operations.records import Operations
from gpu_runtime.service.views import JOB_TYPES, OPERATION_TYPES, job_view


class Jobs:
    """The use cases of jobs."""

    def __init__(self, cluster: Cluster, operations: Operations, created: CreatedObjects) -> None:
        self._cluster = cluster
        self._operations = operations
        self._created = created

    async def get(self, operation_id: str, type_: JobType | None = None) -> Job:
        """The job of that type; without a type the newest, because ids of different types are independent."""
        types = [OPERATION_TYPES[type_]] if type_ else list(JOB_TYPES)
        found = [record for each in types if (record := await self._operations.find(each, operation_id)) is not None]
        if not found:
            raise Missing("job", f"there is no job with operationID {operation_id}")
        record = max(found, key=_age)
        return job_view(record, deleted=await self._created.deleted(record))

    async def list(self, *, limit: int, token: str) -> Listed[Job]:
        query = Query(OPERATIONS, self._operations.namespace)
        try:
            page = await self._cluster.page(query, limit=limit, token=token or None)
        except (BadRequest, Gone) as error:
            raise Clash("the next page is no longer there: list again without continue") from error
        return Listed([job_view(record) for record in page.items], page.token or "")


def _age(record: Operation) -> tuple[str, int]:
    created = record.metadata.creationTimestamp
    return (created.isoformat() if created else "", int(record.metadata.resourceVersion or 0))
