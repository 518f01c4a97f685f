"""Jobs as we write and read them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.controllers.child_kinds.pod_template import PodTemplate
from gpu_runtime.kube.resource import Resource


class JobSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The server lets nobody change a template, so a Job is created once and only ever suspended or resumed."""

    suspend: bool = False
    backoffLimit: int = 6
    activeDeadlineSeconds: int | None = None
    podReplacementPolicy: str = "TerminatingOrFailed"
    template: PodTemplate = PodTemplate()


class JobCondition(Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: datetime | None = None


class JobStatus(Struct, frozen=True, omit_defaults=True, kw_only=True):
    conditions: list[JobCondition] = []
    startTime: datetime | None = None
    completionTime: datetime | None = None


class Job(Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def is_complete(self) -> bool:
        return self._condition("Complete") is not None

    @property
    def failed(self) -> JobCondition | None:
        """Set once the Job has failed and all of its pods have ended."""
        return self._condition("Failed")

    @property
    def is_over(self) -> bool:
        return self.is_complete or self.failed is not None

    def _condition(self, kind: str) -> JobCondition | None:
        return next((each for each in self.status.conditions if each.type == kind and each.status == "True"), None)


JOBS = Resource("batch", "v1", "Job", "jobs", Job)
