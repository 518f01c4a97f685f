"""From the bytes of a request to an object of a kind: parsed, typed, defaulted."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from gpu_runtime.local.apiserver import protobuf
from gpu_runtime.local.apiserver.builtin import named_node
from gpu_runtime.local.apiserver.errors import bad_request, unsupported_media_type
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.records import Object, decode
from gpu_runtime.local.apiserver.schema import Reading, WrongType

PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = f"application/json, application/yaml, {PROTOBUF}"


def parse(body: bytes, content_type: str) -> Any:
    """The document of a request body; JSON unless the content type says YAML."""
    media = content_type.split(";", maxsplit=1)[0].strip().lower()
    if media in ("", "application/json", "*/*"):
        try:
            return decode(body)
        except msgspec.DecodeError as error:
            raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from None
        except UnicodeDecodeError:
            return parse(body.decode("utf-8", "replace").encode(), content_type)
        except RecursionError:
            raise bad_request("the object provided is nested too deeply") from None
    if media == "application/yaml":
        return _parse_yaml(body)
    if media == PROTOBUF:
        try:
            return protobuf.decode_document(body, named_node)
        except protobuf.NotProtobuf as error:
            raise bad_request(f"the object provided is unrecognized (must be of type protobuf): {error}") from None
    raise unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
    )


def _parse_yaml(body: bytes) -> Any:
    import yaml  # noqa: PLC0415 - 30 ms that most servers never need

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """YAML 1.1 to the letter, as the real server reads it: a bare `y` is true."""

    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:y|Y|n|N)$"), list("yYnN"))
    Loader.add_constructor("tag:yaml.org,2002:bool", _yaml_truth)
    try:
        return yaml.load(body, Loader)  # noqa: S506 - derived from a safe loader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise bad_request("the object provided is unrecognized (must be of type YAML)") from None


def _yaml_truth(_loader: Any, node: Any) -> bool:
    return str(node.value).lower() in ("y", "yes", "true", "on")


def repeated_fields(body: bytes) -> list[str]:
    """Paths of fields that a JSON document gives more than once; readers keep the last."""
    if not _has_repeated(body):
        return []
    found: list[str] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Pairs):
            seen = set()
            for key, one in value:
                inside = f"{path}.{key}" if path else key
                if key in seen:
                    found.append(inside)
                else:
                    walk(one, inside)
                seen.add(key)
        elif isinstance(value, list):
            for at, one in enumerate(value):
                walk(one, f"{path}[{at}]")

    walk(json.loads(body, object_pairs_hook=_Pairs), "")
    return list(dict.fromkeys(found))


class _Pairs(list[tuple[str, Any]]):
    """The fields of a JSON object in order, repeated ones included."""


def _has_repeated(body: bytes) -> bool:
    repeated = False

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        made = dict(pairs)
        repeated = repeated or len(made) != len(pairs)
        return made

    try:
        json.loads(body, object_pairs_hook=collect)
    except (ValueError, RecursionError):
        return False
    return repeated


def check_type(document: Any, kind: str, api_version: str, *, custom: bool) -> Object:
    """Refuses a document whose kind or version differs from the path's. A custom object must have both."""
    if document is None and not custom:
        return {}
    if not isinstance(document, dict):
        raise bad_request(f'{kind} in version "{api_version}" cannot be handled as a {kind}: not a JSON object')
    found_kind, found_version = document.get("kind"), document.get("apiVersion")
    for name, found in (("kind", found_kind), ("apiVersion", found_version)):
        if found is not None and not isinstance(found, str):
            raise bad_request(f"couldn't get version/kind; json parse error: {name} is not a string")
    if custom:
        return _typed(document)
    if found_kind and found_kind != kind:
        raise bad_request(
            f'{found_kind} in version "{found_version or api_version}" cannot be handled as a {kind}: '
            f"converting ({found_version}).{found_kind} to ({api_version}).{kind}: unknown conversion"
        )
    if found_version and found_version != api_version:
        raise bad_request(
            f"the API version in the data ({found_version}) does not match the expected API version ({api_version})"
        )
    return document


def _typed(document: Object) -> Object:
    """Requires the kind and version of a custom object. Validation checks later whether they are the right ones."""
    if not document.get("kind"):
        raise bad_request("Object 'Kind' is missing in the document")
    version = document.get("apiVersion", "")
    if version is None or version.count("/") > 1:
        raise bad_request(f"unexpected GroupVersion string: {version}")
    return {**document, "apiVersion": version}


def read(kind: Kind, document: Object, validation: str, warnings: list[str], body: bytes = b"") -> Object:
    """A document as an object of `kind`, with defaults; unknown fields are refused, reported or dropped as asked."""
    reading = Reading()
    try:
        obj = kind.format.read(document, reading)
    except WrongType as error:
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        ) from None
    except RecursionError:
        raise bad_request("the object provided is nested too deeply") from None
    unknown = sorted(reading.unknown) if kind.custom else reading.unknown
    faults = [f'unknown field "{path}"' for path in unknown]
    if body and validation != "Ignore":
        faults += [f'duplicate field "{path}"' for path in repeated_fields(body)]
    report_faults(kind, faults, validation, warnings)
    kind.strategy.default(obj)
    return obj


def report_faults(kind: Kind, texts: list[str], validation: str, warnings: list[str]) -> None:
    if not texts or validation == "Ignore":
        return
    if validation == "Warn":
        warnings += texts
        return
    raise bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
        + ", ".join(texts)
    )
