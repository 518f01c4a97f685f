"""The verbs: what a method on a collection, on an object or on a subresource does."""

from __future__ import annotations

import random
from functools import partial as bind

from aiohttp import web

from gpu_runtime.local.apiserver import table
from gpu_runtime.local.apiserver.calls import Call, json_response
from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.deleting import Deletion, deleted_status
from gpu_runtime.local.apiserver.documents import parse
from gpu_runtime.local.apiserver.errors import Status, bad_request, not_found
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.negotiation import PARTIAL, PLAIN, TABLE
from gpu_runtime.local.apiserver.options import DeleteOptions, ReadOptions, delete_options, read_options
from gpu_runtime.local.apiserver.patching import patch_of
from gpu_runtime.local.apiserver.reading import Page, list_body, list_page, wait_for_version
from gpu_runtime.local.apiserver.records import Object, encode
from gpu_runtime.local.apiserver.selectors import matcher
from gpu_runtime.local.apiserver.watching import Render, Watch, too_old
from gpu_runtime.local.apiserver.writing import Change, check_name


async def get(cluster: Cluster, call: Call) -> web.StreamResponse:
    options = read_options(call.query)
    if options.watch:
        return await watch(cluster, call, options)
    await wait_for_version(cluster.store, options.version or 0)
    record = cluster.store.get(call.kind.resource, call.kind.key(call.namespace, call.name))
    if record is None:
        raise not_found(call.kind.subject, call.name)
    return call.answer(call.kind.wire(record))


async def list_or_watch(cluster: Cluster, call: Call) -> web.StreamResponse:
    options = read_options(call.query)
    if options.watch:
        return await watch(cluster, call, options)
    matches = matcher(options.labels, options.fields, call.kind.strategy.fields)
    page = await list_page(cluster.store, call.kind, call.namespace, options, matches)
    return _list_response(call, page)


def _list_response(call: Call, page: Page) -> web.Response:
    kind = call.kind
    if call.form == PLAIN:
        return json_response(list_body(kind, page))
    documents = [kind.document(record) for record in page.records]
    if call.form == TABLE:
        found = table.of_objects(kind, documents, call.query)
    else:
        found = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "items": [table.partial(one) for one in documents],
        }
    found["metadata"] = page.metadata()
    return json_response(found)


async def watch(cluster: Cluster, call: Call, options: ReadOptions) -> web.StreamResponse:
    """Streams changes until the client goes, the time is up or the server stops."""
    kind = call.kind
    fields = options.fields
    if call.name:
        fields = f"{fields},metadata.name={call.name}" if fields else f"metadata.name={call.name}"
    matches = matcher(options.labels, fields, kind.strategy.fields)
    version = _first_version(cluster, options)
    if version is not None:
        await wait_for_version(cluster.store, version)
    stream = Watch(cluster.store, kind, call.namespace, matches, _renderer(call), bind(_bookmark, kind))
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    await response.prepare(call.request)
    if version is not None and version < cluster.store.oldest:
        # As on the real server, the status is 200 and the stream carries the error: clients read it there.
        await response.write(_error_line(too_old(version, cluster.store.oldest)))
        return response
    seconds = options.timeout if options.timeout else random.uniform(1800, 3600)  # noqa: S311 - spreads reconnects
    lines = stream.lines(
        version, bookmarks=options.bookmarks, initial_end=bool(options.initial_events), seconds=float(seconds)
    )
    async for batch in lines:
        if batch:
            await response.write(batch)
    return response


def _error_line(status: Status) -> bytes:
    return encode({"type": "ERROR", "object": status.wire()}) + b"\n"


def _first_version(cluster: Cluster, options: ReadOptions) -> int | None:
    """The version after which to watch; None to begin with the existing objects."""
    if options.initial_events is not None:
        return None if options.initial_events else (options.version or cluster.store.version)
    return options.version or None


def _renderer(call: Call) -> Render:
    kind = call.kind
    if call.form == TABLE:
        return table.StreamedRows(kind, call.query)
    if call.form == PARTIAL:
        return lambda record: encode(table.partial(kind.document(record)))
    return kind.wire


def _bookmark(kind: Kind, version: int, initial_end: bool) -> Object:
    metadata: Object = {"resourceVersion": str(version)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}


async def create(cluster: Cluster, call: Call) -> web.StreamResponse:
    options = call.options("CreateOptions")
    obj = call.object(options.validation)
    outcome = cluster.writer.create(call.kind, call.namespace, obj, options)
    await outcome.committed()
    return call.answer(outcome.body, 201)


async def replace(cluster: Cluster, call: Call, subresource: str = "") -> web.StreamResponse:
    options = call.options("UpdateOptions")
    obj = call.object(options.validation)
    check_name(obj, call.name)
    change: Change = lambda _old: obj  # noqa: E731
    return await _update(cluster, call, change, subresource, precondition=obj["metadata"].get("uid", ""), put=True)


async def patch(cluster: Cluster, call: Call, subresource: str = "") -> web.StreamResponse:
    change = patch_of(call, call.options("PatchOptions"))
    return await _update(cluster, call, change, subresource, precondition="", put=False)


async def _update(
    cluster: Cluster, call: Call, change: Change, subresource: str, *, precondition: str, put: bool
) -> web.StreamResponse:
    outcome = cluster.writer.update(
        call.kind,
        call.namespace,
        call.name,
        change,
        call.options("UpdateOptions" if put else "PatchOptions"),
        subresource=subresource,
        precondition=precondition,
        may_create=put,
    )
    await outcome.committed()
    return call.answer(outcome.body, 201 if outcome.created else 200)


def _options(call: Call) -> DeleteOptions:
    body = parse(call.body, call.content_type) if call.body.strip() else None
    if body is not None and not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type DeleteOptions)")
    return delete_options(call.query, body)


async def delete(cluster: Cluster, call: Call) -> web.StreamResponse:
    options = _options(call)
    done = cluster.deleter.delete(call.kind, call.namespace, call.name, options)
    await done.committed()
    return json_response(_deleted_body(call.kind, done), headers=call.headers())


def _deleted_body(kind: Kind, done: Deletion) -> Object:
    if done.gone and not kind.strategy.returns_deleted:
        return deleted_status(kind, done.obj)
    return {"kind": kind.kind, "apiVersion": kind.api_version, **done.obj}


async def delete_collection(cluster: Cluster, call: Call) -> web.StreamResponse:
    """Deletes what a list with the same options would show."""
    options = _options(call)
    reading = read_options({key: value for key, value in call.query.items() if key != "watch"})
    matches = matcher(reading.labels, reading.fields, call.kind.strategy.fields)
    page = await list_page(cluster.store, call.kind, call.namespace, reading, matches)
    for record in page.records:
        namespace, _, name = record.key.rpartition("/")
        try:
            await cluster.deleter.delete(call.kind, namespace, name, options).committed()
        except Status as refused:
            if refused.code != 404:
                raise
    return json_response(list_body(call.kind, page), headers=call.headers())
