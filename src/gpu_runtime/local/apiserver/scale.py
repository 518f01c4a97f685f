"""The scale subresource: reads and sets the replicas of any kind that has them."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gpu_runtime.local.apiserver.calls import Call, json_response
from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.documents import check_type, read
from gpu_runtime.local.apiserver.errors import Status, Subject, bad_request, invalid, not_found, wrong
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.patching import MERGE, STRATEGIC, apply, media_type, parsed, typed, unreadable
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.selectors import selector_text

_SUBJECT = Subject("autoscaling", "scales", "Scale")
_TYPE = ("Scale", "autoscaling/v1")


def _at(obj: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _set(obj: Object, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = value


def _paths(kind: Kind) -> dict[str, str]:
    return kind.scale or {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def scale_of(kind: Kind, obj: Object) -> Object:
    """An object seen as a Scale."""
    paths = _paths(kind)
    meta = obj["metadata"]
    kept = {
        key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if key in meta
    }
    status: Object = {"replicas": _at(obj, paths["statusReplicasPath"]) or 0}
    if kind.custom:
        selector = _at(obj, paths["labelSelectorPath"]) if paths.get("labelSelectorPath") else ""
    else:
        selector = selector_text(_at(obj, ".spec.selector"))
    if selector:
        status["selector"] = selector
    spec = {}
    if replicas := _at(obj, paths["specReplicasPath"]):
        spec["replicas"] = replicas
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept, "spec": spec, "status": status}


async def get(cluster: Cluster, call: Call) -> web.StreamResponse:
    record = cluster.store.get(call.kind.resource, call.kind.key(call.namespace, call.name))
    if record is None:
        raise not_found(call.kind.subject, call.name)
    obj, path = call.kind.object(record), _paths(call.kind)["specReplicasPath"]
    if call.kind.custom and _at(obj, path) is None:
        raise bad_request(f'the spec replicas field "{path}" does not exist')  # the real server answers 500
    return json_response(scale_of(call.kind, obj))


async def replace(cluster: Cluster, call: Call) -> web.StreamResponse:
    document = call.document()
    return await _write(cluster, call, "UpdateOptions", lambda _scale: document)


async def patch(cluster: Cluster, call: Call) -> web.StreamResponse:
    media = media_type(call)
    body = parsed(call)
    plain = MERGE if media == STRATEGIC else media  # a Scale has no lists

    def wanted(scale: Object) -> Any:
        return typed(call, media, apply(plain, scale, body, call.kind), *_TYPE)

    return await _write(cluster, call, "PatchOptions", wanted)


async def _write(cluster: Cluster, call: Call, options: str, wanted: Any) -> web.StreamResponse:
    kind = call.kind
    patched = options == "PatchOptions"
    asked = call.options(options)

    def change(stored: Object) -> Object:
        scale = wanted(scale_of(kind, stored))
        try:
            replicas, version = _read(scale)
        except Status as refused:
            raise unreadable(scale, refused) if patched else refused from None
        _check(scale, replicas, call)
        _set(stored, _paths(kind)["specReplicasPath"], replicas)
        if version:
            stored["metadata"]["resourceVersion"] = version
        return read(kind, stored, "Ignore", call.warnings)

    outcome = cluster.writer.update(kind, call.namespace, call.name, change, asked, subresource="scale")
    await outcome.committed()
    return json_response(scale_of(kind, outcome.obj))


def _read(scale: Any) -> tuple[int, str]:
    """The replicas and the resourceVersion in a client's Scale."""
    scale = check_type(scale, *_TYPE, custom=False)
    spec, meta = scale.get("spec") or {}, scale.get("metadata") or {}
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
    version = meta.get("resourceVersion", "") if isinstance(meta, dict) else None
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not isinstance(version, str):
        raise bad_request(
            'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal into Go struct field'
        )
    return replicas, version


def _check(scale: Object, replicas: int, call: Call) -> None:
    name = (scale.get("metadata") or {}).get("name", call.name)
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if replicas < 0 and not call.kind.custom:
        text = "must be greater than or equal to 0"
        raise invalid(_SUBJECT, call.name, [wrong("spec.replicas", replicas, text)])
