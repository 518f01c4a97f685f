"""Dead letters: what was given up, why, and another try."""

from __future__ import annotations

import asyncio
from base64 import b64encode

import structlog

from gpu_runtime.kube.errors import KubeError
from gpu_runtime.rest.errors import InvocationState, Missing, ServiceError, Unavailable
from gpu_runtime.rest.invocations import DeadLetterView, RedriveView
from gpu_runtime.serverless.results.base import DeadLetterQuery, InvalidPageToken, ResultReader, StoreUnavailable
from gpu_runtime.serverless.results.records import DeadLetter, Page
from gpu_runtime.serverless.subjects import Function, Run
from gpu_runtime.service.invocations.acceptance import Accepted
from gpu_runtime.service.invocations.changes import Changes
from gpu_runtime.service.invocations.listing import invalid_token, require_results
from gpu_runtime.service.invocations.lookup import Lookup, store_away
from gpu_runtime.service.listing import ListPage

AT_ONCE = 16

_log = structlog.get_logger("invocations")


class DeadLetters:
    """Dead letters of the database. A run is redriven by what the broker says of it."""

    def __init__(self, results: ResultReader | None, lookup: Lookup, changes: Changes) -> None:
        self._results = results
        self._lookup = lookup
        self._changes = changes

    async def page(
        self, namespace: str, function: str | None, redriven: bool | None, limit: int, token: str
    ) -> ListPage[DeadLetterView]:
        page = await self._page(
            DeadLetterQuery(namespace=namespace, function=function, redriven=redriven, limit=limit, token=token or None)
        )
        return ListPage([dead_letter_view(letter) for letter in page.items], page.next or "")

    async def require(self, letter_id: str) -> DeadLetter:
        try:
            found = await require_results(self._results).get_dead_letter(letter_id)
        except StoreUnavailable as error:
            raise store_away(error) from error
        if found is None:
            raise Missing("dead_letter", f"there is no dead letter {letter_id}")
        return found

    async def redrive(self, letter: DeadLetter) -> Accepted:
        """The run after the one that ended as a dead letter. Repeating it is harmless."""
        if letter.run is None:
            raise InvocationState(f"dead letter {letter.id} is a message that could not be read: it cannot run")
        return await self._redrive(letter.run)

    async def redrive_all(self, function: Function, limit: int, token: str) -> tuple[RedriveView, str]:
        """Redrives one page of the function's dead letters; the token of the next page."""
        page = await self._page(
            DeadLetterQuery(
                namespace=function.namespace,
                function=function.name,
                source="run",
                redriven=False,
                limit=limit,
                token=token or None,
            )
        )
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(letter: DeadLetter) -> bool | None:
            assert letter.run is not None
            async with gate:
                try:
                    return not (await self._redrive(letter.run)).duplicate
                except Unavailable:
                    raise
                except (ServiceError, KubeError) as error:
                    _log.info("a dead letter cannot be redriven", dead_letter=letter.id, problem=str(error))
                    return None

        outcomes = await asyncio.gather(*(one(letter) for letter in page.items))
        view = RedriveView(redriven=outcomes.count(True), already=outcomes.count(False), refused=outcomes.count(None))
        return view, page.next or ""

    async def _redrive(self, run: Run) -> Accepted:
        found = await self._lookup.require(run.function, run.invocation_id)
        return await self._changes.retry(found, run.number, only_dead=True)

    async def _page(self, query: DeadLetterQuery) -> Page[DeadLetter]:
        try:
            return await require_results(self._results).list_dead_letters(query)
        except InvalidPageToken as error:
            raise invalid_token() from error
        except StoreUnavailable as error:
            raise store_away(error) from error


def dead_letter_view(letter: DeadLetter) -> DeadLetterView:
    run = letter.run
    return DeadLetterView(
        id=letter.id,
        source=letter.source,
        invocationID=run.invocation_id if run is not None else "",
        serverlessRequestID=run.function.name if run is not None else "",
        namespace=run.function.namespace if run is not None else "",
        run=run.number if run is not None else 0,
        failureClass=letter.failure_class,
        error=letter.error,
        attempts=letter.attempts,
        failedAt=letter.failed_at,
        redriven=letter.redriven,
        subject=letter.subject,
        contentBase64=b64encode(letter.content).decode() if letter.content is not None else "",
    )
