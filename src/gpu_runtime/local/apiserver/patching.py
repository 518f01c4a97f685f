"""Parses the body of a PATCH into the change that it asks for."""

from __future__ import annotations

from typing import Any

import msgspec

from gpu_runtime.local.apiserver.calls import Call
from gpu_runtime.local.apiserver.documents import check_type, read
from gpu_runtime.local.apiserver.errors import (
    Status,
    Subject,
    bad_request,
    invalid,
    required,
    unsupported_media_type,
    wrong,
)
from gpu_runtime.local.apiserver.kinds import BuiltinFormat, Kind
from gpu_runtime.local.apiserver.options import WriteOptions, write_options
from gpu_runtime.local.apiserver.patch import BadDirective, NotAPatch, PatchFailed, json_patch, merge_patch
from gpu_runtime.local.apiserver.records import Object, decode, encode
from gpu_runtime.local.apiserver.strategic import strategic_patch
from gpu_runtime.local.apiserver.writing import Change, check_name

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")


def media_type(call: Call) -> str:
    """The media type of the patch; 415 when the kind does not support it."""
    media = call.content_type.split(";")[0].strip()
    if media in APPLY:
        if not call.query.get("fieldManager"):
            options = Subject("meta.k8s.io", "PatchOptions", "PatchOptions")
            raise invalid(options, "", [required("fieldManager", "is required for apply patch")])
        raise unsupported_media_type(
            "server-side apply is not served by the embedded API server; use client-side apply (kubectl apply without "
            f"--server-side) or one of: {JSON}, {MERGE}, {STRATEGIC}"
        )
    if media not in (JSON, MERGE, STRATEGIC):
        raise unsupported_media_type("415: Unsupported Media Type", {})
    if media == STRATEGIC and call.kind.custom:
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{JSON}, {MERGE}, application/apply-patch+yaml"
        )
    return media


def parsed(call: Call) -> Any:
    try:
        return decode(call.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from None


def patch_of(call: Call, options: WriteOptions) -> Change:
    """The change of a patch to the main resource or its status."""
    media = media_type(call)
    body = parsed(call)
    if media != JSON and not isinstance(body, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}")
    kind = call.kind

    def change(stored: Object) -> Object:
        document = {"apiVersion": kind.api_version, "kind": kind.kind, **stored}
        patched = typed(call, media, apply(media, document, body, kind), kind.kind, kind.api_version)
        try:
            checked = check_type(patched, kind.kind, kind.api_version, custom=kind.custom)
            found = read(kind, checked, options.validation, call.warnings)
        except Status as refused:
            raise unreadable(patched, refused) from None
        check_name(found, call.name)
        return found

    return change


def typed(call: Call, media: str, patched: Any, own_kind: str, own_version: str) -> Any:
    """Checks the kind and version of the patched document, by rules that the real server has only for patches."""
    if call.kind.custom or not isinstance(patched, dict):
        return patched
    kind, version = patched.get("kind"), patched.get("apiVersion")
    if media != STRATEGIC:
        validation = write_options(call.query, "PatchOptions").validation
        if version in (None, "") and validation == "Strict":
            raise unreadable(patched, bad_request('strict decoding error: unknown field "metadata"'))
        if version in (None, ""):
            if validation == "Warn":
                call.warnings += [
                    f'unknown field "{key}"' for key in sorted(patched) if key not in ("apiVersion", "kind")
                ]
            raise bad_request("the name of the object was undeterminable: name must be provided")
        return patched
    if not (isinstance(kind, str) and isinstance(version, str)):
        return patched
    return {**patched, "kind": own_kind, "apiVersion": own_version}


def unreadable(patched: Any, why: Status) -> Status:
    """The error for a patch that applies but whose result is not an object of the kind."""
    text = why.message.partition(" cannot be handled as a ")[2].partition(": ")[2] or why.message
    return invalid(Subject("", "", ""), "", [wrong("patch", encode(patched).decode(), text)])


def apply(media: str, document: Object, body: Any, kind: Kind) -> Any:
    try:
        if media == JSON:
            return json_patch(document, body)
        if media == MERGE:
            return merge_patch(document, body)
        assert isinstance(kind.format, BuiltinFormat)
        return strategic_patch(document, body, kind.format.node)
    except (NotAPatch, BadDirective) as error:
        raise bad_request(str(error)) from None
    except PatchFailed as error:
        raise Status(
            422, "Invalid", f"the server rejected our request due to an error in our request: {error}", {}
        ) from None
    except RecursionError:
        raise bad_request("the patch is nested too deeply") from None
