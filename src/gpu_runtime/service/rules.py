"""Rules of a request that no schema can say: how its parts fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gpu_runtime.api.schema import Node, describe
from gpu_runtime.api.v1alpha1.access import Access
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE, Probe, RuntimeTemplate
from gpu_runtime.api.validation import FieldError, validate
from gpu_runtime.service.errors import InvalidRequest

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


def template_errors(template: RuntimeTemplate) -> Iterator[FieldError]:
    """What is wrong with a template whose fields are all right by themselves."""
    first: dict[int, int] = {}
    for index, port in enumerate(template.ports):
        if port.port in first:
            message = f"duplicates template.ports[{first[port.port]}]: each number may occur once"
            yield FieldError(f"template.ports[{index}].port", message)
        first.setdefault(port.port, index)
    for index, env in enumerate(template.envs):
        if env.value and env.valueFrom is not None:
            yield FieldError(f"template.envs[{index}].valueFrom", "cannot stand beside value: set one of them")
    if template.readinessProbe is not None:
        yield from _probe_errors(template.readinessProbe, template)


def access_errors(access: Access, template: RuntimeTemplate) -> Iterator[FieldError]:
    """The primary port must be one of the template's."""
    names = [port.name for port in template.ports]
    if access.primaryPort is not None and access.primaryPort not in names:
        known = f"the template has {', '.join(names)}" if names else "the template has no ports"
        yield FieldError("access.primaryPort", f"names no port: {known}")


def _probe_errors(probe: Probe, template: RuntimeTemplate) -> Iterator[FieldError]:
    path = "template.readinessProbe"
    actions = [name for name in ("httpGet", "tcpSocket", "exec") if getattr(probe, name) is not None]
    if len(actions) != 1:
        yield FieldError(path, f"must have exactly one of httpGet, tcpSocket and exec, not {len(actions)}")
    names = {port.name for port in template.ports}
    for name, action in (("httpGet", probe.httpGet), ("tcpSocket", probe.tcpSocket)):
        if action is not None and isinstance(action.port, str) and action.port not in names:
            yield FieldError(f"{path}.{name}.port", "names no port of the template")


def _part(type_: type[S], name: str, sent: Mapping[str, Any], found: Sequence[FieldError]) -> S | None:
    if sent.get(name) is None or any(error.field.startswith(name) for error in found):
        return None
    return _converted(type_, sent[name])


def _converted(type_: type[S], sent: object) -> S:
    return msgspec.convert(_without_nulls(describe(type_), sent), type_)


def _without_nulls(node: Node, value: Any) -> Any:
    """As on the API server, null in an optional field means that the field is absent."""
    if isinstance(value, Mapping) and node.type == "object":
        return {
            name: _without_nulls(node.fields[name].node, entry)
            for name, entry in value.items()
            if entry is not None or node.fields[name].node.nullable
        }
    if isinstance(value, list) and node.items is not None:
        return [_without_nulls(node.items, entry) for entry in value]
    return value
