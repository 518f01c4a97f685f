"""Container logs: the interface between the API server and the code that runs containers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from gpu_runtime.local.apiserver.errors import Subject, bad_request, disallowed, invalid, wrong
from gpu_runtime.local.apiserver.options import Query, number, truth
from gpu_runtime.local.apiserver.records import Object


@dataclass(frozen=True)
class LogQuery:
    """What `kubectl logs` may ask."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: str = ""
    """A time in UTC; older entries are left out."""


def log_query(query: Query, pod: str, now: datetime) -> LogQuery:
    """Parses the query of a log request. Refuses values that make no sense."""
    tail, limit, seconds = (number(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    moment = query.get("sinceTime", "")
    causes = []
    if tail is not None and tail < 0:
        causes.append(wrong("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        causes.append(wrong("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and moment:
        causes.append(disallowed("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        causes.append(wrong("sinceSeconds", seconds, "must be greater than 0"))
    if "stream" in query:
        causes.append(disallowed("stream", "may not be specified"))
    if moment:
        moment = _moment(moment)
    if causes:
        raise invalid(Subject("", "", "PodLogOptions"), pod, causes)
    if seconds is not None:
        moment = _utc(now - timedelta(seconds=min(seconds, now.timestamp())))
    return LogQuery(
        container=query.get("container", ""),
        follow=truth(query, "follow"),
        previous=truth(query, "previous"),
        timestamps=truth(query, "timestamps"),
        tail_lines=tail,
        limit_bytes=limit,
        since=moment,
    )


def _moment(text: str) -> str:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}"')
    return _utc(found)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


class LogSource(Protocol):
    """Gives a container's output in pieces; raises FileNotFoundError when there is none (yet)."""

    def read(self, pod: Object, query: LogQuery) -> AsyncIterator[bytes]: ...
