"""From the bytes of a request to an object of a kind: parsed, typed, defaulted."""

from __future__ import annotations

from typing import Any

import msgspec

from gpu_runtime.local.apiserver import protobuf
from gpu_runtime.local.apiserver.builtin import named_node
from gpu_runtime.local.apiserver.errors import bad_request, unsupported_media_type
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.schema import Reading, WrongType
from gpu_runtime.local.apiserver.store import Object, decode

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

    try:
        return yaml.load(body, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise bad_request("the object provided is unrecognized (must be of type YAML)") from None


def check_type(document: Any, kind: str, api_version: str, *, custom: bool) -> Object:
    """Refuses a document of another kind or version than the path's."""
    if not isinstance(document, dict):
        raise bad_request(f'{kind} in version "{api_version}" cannot be handled as a {kind}: not a JSON object')
    found_kind, found_version = document.get("kind"), document.get("apiVersion")
    for name, found in (("kind", found_kind), ("apiVersion", found_version)):
        if found is not None and not isinstance(found, str):
            raise bad_request(f"couldn't get version/kind; json parse error: {name} is not a string")
    if not found_kind and (custom or found_version):
        raise bad_request("Object 'Kind' is missing in the document")
    if not found_version and custom:
        raise bad_request("Object 'apiVersion' is missing in the document")
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


def read(kind: Kind, document: Object, validation: str, warnings: list[str]) -> Object:
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
    report_unknown(kind, reading.unknown, validation, warnings)
    kind.strategy.default(obj)
    return obj


def report_unknown(kind: Kind, unknown: list[str], validation: str, warnings: list[str]) -> None:
    if not unknown or validation == "Ignore":
        return
    texts = [f'unknown field "{path}"' for path in unknown]
    if validation == "Warn":
        warnings += texts
        return
    raise bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
        + ", ".join(texts)
    )
