"""The use cases of invocations: submit one, look at it, wait for its end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_runtime.rest.invocations import InvocationView
from gpu_runtime.serverless.backlog import Backlog
from gpu_runtime.serverless.broker import bodies
from gpu_runtime.serverless.broker.bodies import BodyGone
from gpu_runtime.serverless.broker.connection import Broker
from gpu_runtime.serverless.broker.errors import BrokerError
from gpu_runtime.serverless.heartbeats import Heartbeats
from gpu_runtime.serverless.messages import ResultMessage
from gpu_runtime.serverless.results.base import ResultReader, StoreUnavailable
from gpu_runtime.serverless.subjects import Function, Run
from gpu_runtime.service.invocations.acceptance import Acceptance, Accepted
from gpu_runtime.service.invocations.ends import Ends
from gpu_runtime.service.invocations.functions import Functions
from gpu_runtime.service.invocations.lookup import FoundRun, Lookup
from gpu_runtime.service.invocations.submission import Submission
from gpu_runtime.service.invocations.views import Progress, ShownBody, ended_view, unfinished_view
from gpu_runtime.service.platform import Platform


@dataclass(frozen=True)
class Invocations:
    """Invocations as a client of the REST API sees them."""

    platform: Platform
    broker: Broker
    results: ResultReader | None
    lookup: Lookup
    acceptance: Acceptance
    ends: Ends
    functions: Functions
    heartbeats: Heartbeats
    backlog: Backlog

    def namespace(self, asked: str | None) -> str:
        return self.platform.allow(asked or self.platform.instance_namespace)

    async def accept(self, submission: Submission) -> Accepted:
        return await self.acceptance.accept(submission)

    async def find(self, invocation_id: str, function: str | None, namespace: str | None) -> FoundRun:
        """The last run of an invocation. Without a function, the id must be of one function only."""
        if function is not None:
            return await self.lookup.require(Function(self.namespace(namespace), function), invocation_id)
        serves = self.platform.serves if namespace is None else self.namespace(namespace).__eq__
        return await self.lookup.require(await self.lookup.function_of(invocation_id, serves), invocation_id)

    async def wait(self, found: FoundRun, seconds: float) -> FoundRun:
        """The run, as it is at its end or after `seconds`."""
        if found.end is not None or seconds <= 0:
            return found
        return replace(found, end=await self.ends.wait(found.run, seconds))

    async def view(self, found: FoundRun, *, duplicate: bool | None = None) -> InvocationView:
        if found.end is not None:
            return ended_view(found, found.end, await self._body(found.run, found.end), duplicate=duplicate)
        return unfinished_view(found, self.progress(found.run), duplicate=duplicate)

    def summary(self, found: FoundRun, *, duplicate: bool | None = None) -> InvocationView:
        """The view without the body of the result."""
        if found.end is not None:
            return ended_view(found, found.end, duplicate=duplicate)
        return unfinished_view(found, self.progress(found.run), duplicate=duplicate)

    def progress(self, run: Run) -> Progress:
        """What is known of a run without an end. It is shown to people; nothing is decided by it."""
        beats = self.heartbeats.of(run.function)
        worker = next((name for name, beat in beats.items() if run.key in beat.said.running), "")
        if worker:
            return Progress(worker=worker)
        busy = sum(len(beat.said.running) for beat in beats.values())
        ahead = self.backlog.ahead(run)
        return Progress(
            position=max(1, ahead - busy + 1) if ahead is not None else None,
            blocked=self.functions.blocked(run.function),
        )

    async def _body(self, run: Run, end: ResultMessage) -> ShownBody:
        is_json = not end.contentType or end.contentType.partition(";")[0].strip().lower() == "application/json"
        if end.body.ref is None:
            return ShownBody(end.body.inline(), is_json=is_json)
        try:
            return ShownBody(await bodies.load(self.broker, run, end.body), is_json=is_json)
        except (BodyGone, BrokerError) as error:
            problem = str(error)
        try:
            stored = await self.results.body(run, "result") if self.results is not None else None
        except StoreUnavailable as error:
            stored, problem = None, str(error)
        return ShownBody(stored, is_json=is_json) if stored is not None else ShownBody(missing=problem)
