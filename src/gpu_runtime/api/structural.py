"""Structural schemas, as CustomResourceDefinitions require them: without references, everything inline."""

from __future__ import annotations

from gpu_runtime.api.schema import NO_DEFAULT, Node

Schema = dict[str, object]


def structural(node: Node) -> Schema:
    """The schema of one value, with its keys in a fixed order."""
    schema: Schema = {}
    if node.description:
        schema["description"] = node.description
    if node.default is not NO_DEFAULT:
        schema["default"] = node.default
    if node.nullable:
        schema["nullable"] = True
    schema |= _type(node) | _limits(node) | _content(node) | dict(node.extensions)
    if node.type == "array":
        # This is the server's default, written explicitly: an applied list replaces the whole old list.
        schema.setdefault("x-kubernetes-list-type", "atomic")
    return schema


def _type(node: Node) -> Schema:
    match node.type:
        case "any":
            return {"x-kubernetes-preserve-unknown-fields": True}
        case "int-or-string":
            return {"x-kubernetes-int-or-string": True}
        case "map":
            return {"type": "object"}
    return {"type": node.type} | ({"format": node.format} if node.format else {})


def _limits(node: Node) -> Schema:
    shortest, longest = {
        "array": ("minItems", "maxItems"),
        "map": ("minProperties", "maxProperties"),
    }.get(node.type, ("minLength", "maxLength"))
    limits = {
        "enum": list(node.enum) or None,
        "minimum": node.minimum,
        "maximum": node.maximum,
        shortest: node.min_length,
        longest: node.max_length,
        "pattern": node.pattern or None,
    }
    return {key: value for key, value in limits.items() if value is not None}


def _content(node: Node) -> Schema:
    if node.type == "array" and node.items:
        return {"items": structural(node.items)}
    if node.type == "map" and node.items:
        if node.items.type == "any":
            return {"x-kubernetes-preserve-unknown-fields": True}
        return {"additionalProperties": structural(node.items)}
    if node.type != "object":
        return {}
    required = sorted(name for name, field in node.fields.items() if field.required)
    properties = {name: structural(node.fields[name].node) for name in sorted(node.fields)}
    return ({"required": required} if required else {}) | {"properties": properties}
