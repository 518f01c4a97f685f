"""The options of a request: query parameters and DeleteOptions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpu_runtime.local.apiserver.errors import (
    Cause,
    Status,
    Subject,
    bad_request,
    disallowed,
    invalid,
    unsupported,
    wrong,
)
from gpu_runtime.local.apiserver.records import Object

Query = Mapping[str, str]


def _options(kind: str) -> Subject:
    return Subject("meta.k8s.io", kind, kind)


def number(query: Query, name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def truth(query: Query, name: str) -> bool:
    """Reads a flag. As for the real server, every value that is not plainly false is true."""
    return name in query and query[name].lower() not in ("0", "false")


def version_of(text: str, *, watch: bool = False, field: str = "resourceVersion") -> int:
    """A resourceVersion as a number; 0 for none."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()):
        why = f'{field}: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(why if watch else f"invalid resource version: {why}")
    return int(text)


@dataclass(frozen=True)
class WriteOptions:
    """Options of create, update and patch."""

    dry_run: bool = False
    validation: str = "Warn"


def write_options(query: Query, kind: str) -> WriteOptions:
    causes: list[Cause] = []
    dry_run = dry_run_asked(query, causes)
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        causes.append(unsupported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if len(query.get("fieldManager", "")) > 128:
        causes.append(Cause("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager"))
    if causes:
        raise invalid(_options(kind), "", causes)
    return WriteOptions(dry_run, validation)


def dry_run_asked(query: Query, causes: list[Cause]) -> bool:
    value = query.get("dryRun")
    if value is not None and value != "All":
        causes.append(unsupported("dryRun", [value], ["All"]))
    return value == "All"


@dataclass(frozen=True)
class ReadOptions:
    """Options of list and watch."""

    labels: str = ""
    fields: str = ""
    version: int | None = None
    match: str = ""
    limit: int = 0
    token: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int | None = None


def read_options(query: Query) -> ReadOptions:
    """Parses the options of list and watch. Refuses options that contradict each other."""
    version = query.get("resourceVersion", "")
    initial = truth(query, "sendInitialEvents") if query.get("sendInitialEvents") else None
    options = ReadOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        version=version_of(version, watch=truth(query, "watch")) if version else None,
        match=query.get("resourceVersionMatch", ""),
        limit=number(query, "limit") or 0,
        token=query.get("continue", ""),
        watch=truth(query, "watch"),
        bookmarks=truth(query, "allowWatchBookmarks"),
        initial_events=initial,
        timeout=number(query, "timeoutSeconds"),
    )
    causes = _watch_causes(options) if options.watch else _list_causes(options)
    if causes:
        raise invalid(_options("ListOptions"), "", causes)
    return options


def _list_causes(options: ReadOptions) -> list[Cause]:
    found = []
    field = "resourceVersionMatch"
    if options.match:
        if options.version is None:
            found.append(disallowed(field, f"{field} is forbidden unless resourceVersion is provided"))
        if options.token:
            found.append(disallowed(field, f"{field} is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            found.append(unsupported(field, options.match, ["Exact", "NotOlderThan", ""]))
        if options.match == "Exact" and options.version == 0:
            found.append(disallowed(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if options.initial_events is not None:
        found.append(disallowed("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return found


def _watch_causes(options: ReadOptions) -> list[Cause]:
    found = []
    field = "resourceVersionMatch"
    if options.initial_events is not None and options.match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        found.append(disallowed(field, text))
    if options.match:
        if options.initial_events is None:
            found.append(disallowed(field, f"{field} is forbidden for watch unless sendInitialEvents is provided"))
        if options.match not in ("NotOlderThan",):
            found.append(unsupported(field, options.match, ["NotOlderThan"]))
        if options.token:
            found.append(disallowed(field, f"{field} is forbidden when continue is provided"))
    return found


@dataclass(frozen=True)
class DeleteOptions:
    grace: int | None = None
    propagation: str | None = None
    orphan: bool | None = None
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False


def delete_options(query: Query, body: Object | None) -> DeleteOptions:
    """From the body when there is one, else from the query, as the real server does."""
    causes: list[Cause] = []
    found = _from_body(body, causes) if body else _from_query(query, causes)
    if found.propagation is not None and found.propagation not in ("Foreground", "Background", "Orphan"):
        causes.append(
            unsupported("propagationPolicy", found.propagation, ["Foreground", "Background", "Orphan", "nil"])
        )
    if found.propagation is not None and found.orphan is not None:
        causes.append(
            wrong("propagationPolicy", found.propagation, "orphanDependents and deletionPropagation cannot be both set")
        )
    if causes:
        raise invalid(_options("DeleteOptions"), "", causes)
    if found.grace is not None and found.grace < 0:
        found = replace(found, grace=1)
    return found


def _from_query(query: Query, causes: list[Cause]) -> DeleteOptions:
    return DeleteOptions(
        grace=number(query, "gracePeriodSeconds"),
        propagation=query.get("propagationPolicy") or None,
        orphan=truth(query, "orphanDependents") if "orphanDependents" in query else None,
        dry_run=dry_run_asked(query, causes),
    )


def _from_body(body: Object, causes: list[Cause]) -> DeleteOptions:
    if body.get("kind", "DeleteOptions") != "DeleteOptions":
        raise bad_request("decoded object cannot be converted to DeleteOptions")
    preconditions = _typed(body, "preconditions", dict) or {}
    dry_run = _typed(body, "dryRun", list) or []
    causes += [unsupported("dryRun", dry_run, ["All"]) for value in dry_run if value != "All"]
    return DeleteOptions(
        grace=_typed(body, "gracePeriodSeconds", int),
        propagation=_typed(body, "propagationPolicy", str),
        orphan=_typed(body, "orphanDependents", bool),
        uid=_typed(preconditions, "uid", str),
        version=_typed(preconditions, "resourceVersion", str),
        dry_run=dry_run == ["All"],
    )


def _typed(body: Object, name: str, wanted: type) -> Any:
    value = body.get(name)
    if value is None or (isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))):
        return value
    raise wrong_options(name, wanted)


def wrong_options(name: str, wanted: type) -> Status:
    return bad_request(f"json: cannot unmarshal into Go struct field DeleteOptions.{name} of type {wanted.__name__}")
