"""A request as the client sent it, checked by its schema and by the rules that no schema can say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gpu_runtime.api.v1alpha1.access import Access
from gpu_runtime.api.v1alpha1.rules import access_errors, template_errors
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE, RuntimeTemplate
from gpu_runtime.api.validation import FieldError, validate, without_nulls
from gpu_runtime.rest.errors import InvalidRequest

S = TypeVar("S", bound=msgspec.Struct)


def parse(type_: type[S], sent: object, *, partial: bool = False) -> S:
    """What the client sent as the request that it is; InvalidRequest with everything that is wrong with it.

    A partial request keeps what it does not name, so its parts are fitted together by whoever knows the rest.
    """
    found = validate(type_, sent)
    if isinstance(sent, Mapping):
        found += broken(sent, found, partial=partial)
    if found:
        raise InvalidRequest.of(found)
    return _converted(type_, sent)


def broken(sent: Mapping[str, Any], found: Sequence[FieldError], *, partial: bool = False) -> list[FieldError]:
    """The broken rules of the parts in which the schema found nothing wrong."""
    template = _part(RuntimeTemplate, "template", sent, found)
    access = _part(Access, "access", sent, found)
    errors: list[FieldError] = []
    if template is not None:
        errors += template_errors(template)
    if access is not None and (template is not None or ("template" not in sent and not partial)):
        errors += access_errors(access, template or EMPTY_TEMPLATE)
    return errors


def _part(type_: type[S], name: str, sent: Mapping[str, Any], found: Sequence[FieldError]) -> S | None:
    if sent.get(name) is None or any(error.field.startswith(name) for error in found):
        return None
    return _converted(type_, sent[name])


def _converted(type_: type[S], sent: object) -> S:
    return msgspec.convert(without_nulls(type_, sent), type_)
