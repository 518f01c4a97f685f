"""One request for a kind, and the answers to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from gpu_runtime.local.apiserver import table
from gpu_runtime.local.apiserver.documents import check_type, parse, read
from gpu_runtime.local.apiserver.errors import bad_request
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.negotiation import PARTIAL, TABLE
from gpu_runtime.local.apiserver.options import WriteOptions, write_options
from gpu_runtime.local.apiserver.records import Object, decode, encode
from gpu_runtime.local.apiserver.targets import Target

LONGEST_WARNINGS = 4096


@dataclass
class Call:
    """A request whose path names a kind that is served."""

    request: web.BaseRequest
    kind: Kind
    target: Target
    body: bytes
    form: str
    warnings: list[str] = field(default_factory=list)

    @property
    def query(self) -> Mapping[str, str]:
        return {**self.request.query, "watch": "true"} if self.target.watch else self.request.query

    @property
    def content_type(self) -> str:
        return self.request.headers.get("Content-Type", "")

    @property
    def namespace(self) -> str:
        return self.target.namespace

    @property
    def name(self) -> str:
        return self.target.name

    def options(self, kind: str) -> WriteOptions:
        return write_options(self.query, kind)

    def document(self) -> Any:
        return parse(self.body, self.content_type)

    def object(self, validation: str) -> Object:
        """The body as an object of the path's kind."""
        document = check_type(self.document(), self.kind.kind, self.kind.api_version, custom=self.kind.custom)
        obj = read(self.kind, document, validation, self.warnings, self.body)
        found = obj.get("apiVersion", self.kind.api_version)
        if found != self.kind.api_version:
            raise bad_request(
                f"the API version in the data ({found}) does not match "
                f"the expected API version ({self.kind.api_version})"
            )
        return obj

    def answer(self, body: bytes, status: int = 200) -> web.Response:
        """One object in the form that the client asked for."""
        if self.form == TABLE:
            found = table.of_objects(self.kind, [decode(body)], self.query)
            return json_response(found, status, self.headers())
        if self.form == PARTIAL:
            return json_response(table.partial(decode(body)), status, self.headers())
        return json_response(body, status, self.headers())

    def headers(self) -> CIMultiDict[str]:
        """One Warning header for each warning. Warnings may quote the client, so they are escaped and cut."""
        found: CIMultiDict[str] = CIMultiDict()
        left = LONGEST_WARNINGS
        for text in dict.fromkeys(self.warnings):
            plain = "".join(one if one.isprintable() else " " for one in text)[:left]
            left -= len(plain)
            if plain:
                escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
                found.add("Warning", f'299 - "{escaped}"')
        return found


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    content = body if isinstance(body, bytes) else encode(body)
    return web.Response(body=content, status=status, content_type="application/json", headers=headers)
