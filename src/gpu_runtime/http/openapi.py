"""Generates the OpenAPI document from the routes and their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import msgspec

from gpu_runtime.api.schema import NO_DEFAULT, Node, describe
from gpu_runtime.api.v1alpha1.fields import QuantityText
from gpu_runtime.http.route import JSON, Answer, AnyRoute, Nothing
from gpu_runtime.http.routes import ROUTES
from gpu_runtime.http.streams import EVENT_STREAM
from gpu_runtime.rest.errors import ErrorEnvelope

BASE = "/api/v1"
VERSION = "v1"
QUANTITY = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9])?$"
ERRORS = {
    400: "The request is invalid; `details` lists all invalid fields.",
    401: "A bearer token is needed.",
    403: "Not allowed, such as a namespace that this installation does not serve.",
    404: "An object that the request names does not exist.",
    409: "The current state of the platform does not allow the request.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    429: "Too many requests at once; retry after Retry-After seconds.",
    503: "The cluster cannot serve the request now; retry the same request after Retry-After seconds.",
}
EVENT = {
    "type": "object",
    "description": "One server-sent event. First an `added` for each object that exists and a `bookmark`, then each "
    "change. An object that no longer matches the requested labels or phase is reported as `deleted`, one that begins "
    "to match as `added`. After a `reset` the client must forget all objects that it knows: the whole list follows.",
    "properties": {
        "event": {"type": "string", "enum": ["added", "modified", "deleted", "bookmark", "reset", "error"]},
        "id": {"type": "string", "description": "Send it as Last-Event-ID to resume after this event."},
        "data": {
            "type": "string",
            "description": "The object as JSON; for `deleted` its last state; `{}` for a bookmark or reset; for an "
            "error an object with a `message`.",
        },
    },
    "required": ["event", "data"],
}
_QUANTITY = describe(QuantityText).check


class Components:
    """Schemas by the name of their Struct. TypeError when two Structs have the same name."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}
        self._structs: dict[str, type] = {}

    def reference(self, struct: type, node: Node) -> dict[str, Any]:
        name = struct.__name__
        if self._structs.setdefault(name, struct) is not struct:
            places = " and ".join(sorted({struct.__module__, self._structs[name].__module__}))
            raise TypeError(f"two Structs of the REST API are called {name}, in {places}: rename one of them")
        if name not in self.schemas:
            self.schemas[name] = {}  # set before its fields are visited: they may refer to it
            self.schemas[name] = _object(node, self)
        return {"$ref": f"#/components/schemas/{name}"}


def document(routes: Iterable[AnyRoute] = ROUTES) -> dict[str, Any]:
    """The whole document; the same bytes for the same routes."""
    components = Components()
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(BASE + route.path, {})[route.method.lower()] = _operation(route, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gpu-runtime",
            "version": VERSION,
            "description": "Warm GPU stock, and running instances made from it. Responses are `{data}` or `{error}`.",
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.schemas.items())),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def text() -> str:
    """The text of the committed file."""
    return msgspec.json.format(msgspec.json.encode(document()), indent=2).decode() + "\n"


def _operation(route: AnyRoute, components: Components) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "tags": [route.tag],
        "operationId": _operation_id(route),
        "parameters": [
            *_parameters(route.parameters, "path", components),
            *_parameters(route.query, "query", components),
        ],
        "responses": _responses(route, components),
    }
    if route.description:
        operation["description"] = route.description
    if route.body is not Nothing:
        content: dict[str, Any] = {"schema": _schema(describe(route.body), components)}
        if route.example is not None:
            content["example"] = dict(route.example)
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    return operation


def _operation_id(route: AnyRoute) -> str:
    words = route.path.replace("/", " ").replace("{", "by ").replace("}", "").replace("-", " ").split()
    return route.method.lower() + "".join(word[:1].upper() + word[1:] for word in words)


def _parameters(type_: Any, where: str, components: Components) -> Iterable[dict[str, Any]]:
    for name, field in describe(type_).fields.items():
        schema = _schema(field.node, components)
        described = schema.pop("description", "")
        parameter: dict[str, Any] = {"name": name, "in": where, "required": field.required, "schema": schema}
        yield {**parameter, "description": described} if described else parameter


def _responses(route: AnyRoute, components: Components) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for answer in route.answers:
        entry = responses.setdefault(str(answer.status), {"description": answer.description})
        content = _content(answer, components)
        if content:
            entry.setdefault("content", {}).update(content)
    errors = _schema(describe(ErrorEnvelope), components)
    for status in error_codes(route):
        response: dict[str, Any] = {"description": ERRORS[status], "content": {JSON: {"schema": errors}}}
        if status in (429, 503):
            response["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 0}}}
        responses[str(status)] = response
    return dict(sorted(responses.items()))


def error_codes(route: AnyRoute) -> list[int]:
    """The error codes of the route that a client or the cluster can cause."""
    codes = {*route.errors, 429}
    if route.body is not Nothing:
        codes |= {400, 413, 415}
    if route.query is not Nothing or route.parameters is not Nothing:
        codes.add(400)
    if not route.open:
        codes |= {401, 503}
    codes.add(403)  # a Host that is not allowed
    return sorted(codes)


def _content(answer: Answer, components: Components) -> dict[str, Any]:
    if answer.status == HTTPStatus.NO_CONTENT:
        return {}
    if answer.media != JSON:
        if answer.schema is not None:
            return {answer.media: {"schema": dict(answer.schema)}}
        return {answer.media: {"schema": EVENT if answer.media == EVENT_STREAM else {"type": "string"}}}
    properties: dict[str, Any] = {"data": _schema(describe(answer.data), components)}
    if answer.paged:
        properties["continue"] = {"type": "string", "description": "Send it as `continue` for the next page."}
    return {JSON: {"schema": {"type": "object", "required": ["data"], "properties": properties}}}


def _schema(node: Node, components: Components) -> dict[str, Any]:
    """The JSON schema of a description; Structs become components."""
    if node.type == "object" and node.struct is not None:
        return _nullable({**components.reference(node.struct, node), **_described(node)}, node)
    schema: dict[str, Any] = {**_described(node), **_typed(node)}
    schema |= _limits(node)
    if node.items is not None:
        key = "items" if node.type == "array" else "additionalProperties"
        schema[key] = _schema(node.items, components)
    if node.default is not NO_DEFAULT and node.default is not None:
        schema["default"] = node.default
    return _nullable(schema, node)


def _object(node: Node, components: Components) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if node.description:
        schema["description"] = node.description.strip()
    # As on the Kubernetes API server, null in an optional field means that the field is absent.
    schema["properties"] = {
        name: _schema(replace(field.node, nullable=field.node.nullable or not field.required), components)
        for name, field in node.fields.items()
    }
    required = [name for name, field in node.fields.items() if field.required]
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}  # requests with unknown fields are refused


def _typed(node: Node) -> dict[str, Any]:
    match node.type:
        case "map" | "object":
            return {"type": "object"}
        case "int-or-string":
            return {"type": ["integer", "string"]}
        case "any":
            return {}
    return {"type": node.type}


def _limits(node: Node) -> dict[str, Any]:
    sized = {"array": ("minItems", "maxItems"), "map": ("minProperties", "maxProperties")}
    least, most = sized.get(node.type, ("minLength", "maxLength"))
    limits: Mapping[str, Any] = {
        "format": node.format or None,
        "pattern": QUANTITY if node.check is _QUANTITY else node.pattern or None,
        "enum": list(node.enum) or None,
        "minimum": node.minimum,
        "maximum": node.maximum,
        least: node.min_length,
        most: node.max_length,
    }
    return {name: value for name, value in limits.items() if value is not None}


def _described(node: Node) -> dict[str, Any]:
    return {"description": node.description} if node.description and node.type != "object" else {}


def _nullable(schema: dict[str, Any], node: Node) -> dict[str, Any]:
    if not node.nullable:
        return schema
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "enum" in schema:
        schema = {**schema, "enum": [*schema["enum"], None]}
    types = schema.get("type", [])
    return {**schema, "type": [*([types] if isinstance(types, str) else types), "null"]} if types else schema
