"""Validates requests: by their schema, then by the rules that a schema cannot express."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gpu_runtime.api.v1alpha1.access import Access
from gpu_runtime.api.v1alpha1.function_rules import function_errors
from gpu_runtime.api.v1alpha1.gpustorage import Prepare
from gpu_runtime.api.v1alpha1.gpuunit import StorageMount
from gpu_runtime.api.v1alpha1.rules import access_errors, mount_errors, prepare_errors, size_errors, template_errors
from gpu_runtime.api.v1alpha1.serverless import NOT_SERVERLESS, Serverless
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE, RuntimeTemplate
from gpu_runtime.api.v1alpha1.worker_pod import serverless_errors
from gpu_runtime.api.validation import FieldError, validate, without_nulls
from gpu_runtime.rest.errors import InvalidRequest
from gpu_runtime.rest.function_requests import CreateGPUFunction
from gpu_runtime.rest.requests import CreateGPUUnit

S = TypeVar("S", bound=msgspec.Struct)
P = TypeVar("P")


def parse(type_: type[S], sent: object, *, partial: bool = False) -> S:
    """The validated request; InvalidRequest lists all errors.

    A partial request does not contain the unchanged fields, so the caller checks the rules on the merged object.
    """
    found = validate(type_, sent)
    if isinstance(sent, Mapping):
        found += broken(sent, found, partial=partial)
        if type_ is CreateGPUUnit:
            found += _worker_errors(sent, found)
        if type_ is CreateGPUFunction and not found:
            found += function_errors(convert(CreateGPUFunction, sent))
    if found:
        raise InvalidRequest.of(found)
    return convert(type_, sent)


def broken(sent: Mapping[str, Any], found: Sequence[FieldError], *, partial: bool = False) -> list[FieldError]:
    """The broken rules, in the parts that are valid by their schema."""
    template = _part(RuntimeTemplate, "template", sent, found)
    access = _part(Access, "access", sent, found)
    errors: list[FieldError] = []
    if template is not None:
        errors += template_errors(template)
    if access is not None and (template is not None or ("template" not in sent and not partial)):
        errors += access_errors(access, template or EMPTY_TEMPLATE)
    if (mounts := _part(list[StorageMount], "storageMounts", sent, found)) is not None:
        errors += mount_errors(mounts)
    if isinstance(size := sent.get("size"), str) and not any(error.field == "size" for error in found):
        errors += size_errors(size)
    if (prepare := _part(Prepare, "prepare", sent, found)) is not None:
        errors += prepare_errors(prepare, str(sent.get("name")))
    return errors


def _worker_errors(sent: Mapping[str, Any], found: Sequence[FieldError]) -> list[FieldError]:
    """Errors of a unit's image and its part in a serverless function, if the parts that they depend on are valid."""
    names = ("image", "template", "storageMounts", "serverless")
    if any(error.field.startswith(names) for error in found):
        return []
    serverless = _part(Serverless, "serverless", sent, found) or NOT_SERVERLESS
    template = _part(RuntimeTemplate, "template", sent, found) or EMPTY_TEMPLATE
    mounts = _part(list[StorageMount], "storageMounts", sent, found) or []
    if sent.get("image") is None and not serverless.enabled:
        return [FieldError("image", "is required")]
    return list(serverless_errors(serverless, sent.get("image"), template, mounts))


def _part(type_: type[P], name: str, sent: Mapping[str, Any], found: Sequence[FieldError]) -> P | None:
    if sent.get(name) is None or any(error.field.startswith(name) for error in found):
        return None
    return convert(type_, sent[name])


def convert(type_: type[P], sent: object) -> P:
    """The request. Only for what `parse` has accepted."""
    return msgspec.convert(without_nulls(type_, sent), type_)
