"""Lists invocations, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gpu_runtime.api.validation import FieldError
from gpu_runtime.rest.errors import InvalidRequest, Unavailable
from gpu_runtime.rest.invocations import InvocationView, State
from gpu_runtime.serverless.heartbeats import Heartbeats
from gpu_runtime.serverless.results.base import InvalidPageToken, ResultReader, RunQuery, StoreUnavailable
from gpu_runtime.serverless.subjects import Run, is_invocation_id
from gpu_runtime.service.invocations.invocations import Invocations
from gpu_runtime.service.invocations.lookup import from_database, store_away
from gpu_runtime.service.listing import ListPage


@dataclass(frozen=True)
class Wanted:
    """Which invocations to list."""

    namespace: str
    function: str | None = None
    state: State | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
    token: str = ""


class InvocationList:
    """The database knows what was accepted and how it ended; workers say what they run now."""

    def __init__(self, results: ResultReader | None, invocations: Invocations, heartbeats: Heartbeats) -> None:
        self._results = results
        self._invocations = invocations
        self._heartbeats = heartbeats

    async def page(self, wanted: Wanted) -> ListPage[InvocationView]:
        """A page may have fewer entries than asked for and still not be the last one."""
        if wanted.state == "running":
            return await self._running(wanted)
        query = RunQuery(
            namespace=wanted.namespace,
            function=wanted.function,
            state=wanted.state,
            accepted_from=wanted.since,
            accepted_before=wanted.until,
            limit=wanted.limit,
            token=wanted.token or None,
        )
        try:
            page = await require_results(self._results).list_runs(query)
        except InvalidPageToken as error:
            raise invalid_token() from error
        except StoreUnavailable as error:
            raise store_away(error) from error
        views = [self._invocations.summary(from_database(stored)) for stored in page.items]
        shown = [view for view in views if wanted.state is None or view.state == wanted.state]
        return ListPage(shown, page.next or "")

    async def _running(self, wanted: Wanted) -> ListPage[InvocationView]:
        """What workers work on now, in the order of function and id."""
        runs = sorted(run for run in self._runs() if _place(run) > wanted.token and _matches(run, wanted))
        page, more = runs[: wanted.limit], len(runs) > wanted.limit
        found = [await self._invocations.lookup.find(run.function, run.invocation_id) for run in page]
        views = [self._invocations.summary(each) for each in found if each is not None]
        shown = [view for view in views if view.state == "running" and _accepted_within(view, wanted)]
        return ListPage(shown, _place(page[-1]) if more else "")

    def _runs(self) -> Iterator[Run]:
        for function in self._heartbeats.functions():
            for beat in self._heartbeats.of(function).values():
                for key in beat.said.running:
                    invocation_id, _, number = key.rpartition(".")
                    if number.isdecimal() and is_invocation_id(invocation_id):
                        yield Run(function, invocation_id, int(number))


def require_results(results: ResultReader | None) -> ResultReader:
    if results is None:
        raise Unavailable("the database of results is not configured: set results.database")
    return results


def invalid_token() -> InvalidRequest:
    return InvalidRequest.of([FieldError("continue", "must be the `continue` value of a page of the same list")])


def _place(run: Run) -> str:
    return f"{run.function}/{run.key}"


def _matches(run: Run, wanted: Wanted) -> bool:
    return run.function.namespace == wanted.namespace and wanted.function in (None, run.function.name)


def _accepted_within(view: InvocationView, wanted: Wanted) -> bool:
    if view.acceptedAt is None:
        return True
    return (wanted.since is None or view.acceptedAt >= wanted.since) and (
        wanted.until is None or view.acceptedAt < wanted.until
    )
