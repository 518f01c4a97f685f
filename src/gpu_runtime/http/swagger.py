"""Swagger UI, served from files on this machine: it works without a network."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec
from aiohttp import web

from gpu_runtime.http.app import OPEN_TO_ALL
from gpu_runtime.http.openapi import document

BASE = "/swagger"
FILES = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui-standalone-preset.js": "text/javascript",
    "favicon-32x32.png": "image/png",
}
# The page may load scripts and styles only from this server; the UI has icons in data URLs.
POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>gpu-runtime API</title>
<link rel="icon" type="image/png" href="favicon-32x32.png">
<link rel="stylesheet" href="swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="swagger-ui-bundle.js"></script>
<script src="swagger-ui-standalone-preset.js"></script>
<script src="start.js"></script>
</body>
</html>
"""
START = """window.ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
  layout: "BaseLayout",
});
"""


def add_swagger(app: web.Application) -> None:
    """The page, its files and the document that it shows."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html", headers={"Content-Security-Policy": POLICY})

    async def start(_: web.Request) -> web.Response:
        return web.Response(text=START, content_type="text/javascript")

    async def described(_: web.Request) -> web.Response:
        return web.Response(body=_document(), content_type="application/json")

    async def file(request: web.Request) -> web.Response:
        name = request.match_info["file"]
        if name not in FILES:
            raise web.HTTPNotFound(text=f"there is no {request.path}")
        return web.Response(body=_file(name), content_type=FILES[name])

    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=308, headers={"Location": f"{BASE}/index.html"})

    for path, handler in (
        (BASE, redirect),
        (f"{BASE}/", redirect),
        (f"{BASE}/index.html", page),
        (f"{BASE}/start.js", start),
        (f"{BASE}/openapi.json", described),
        (f"{BASE}/{{file}}", file),
    ):
        setattr(handler, OPEN_TO_ALL, True)
        app.router.add_route("GET", path, handler)


@cache
def _document() -> bytes:
    return msgspec.json.encode(document())


@cache
def _file(name: str) -> bytes:
    spec = find_spec("swagger_ui")
    assert spec is not None, "swagger-ui-py is a dependency"
    return (Path((spec.submodule_search_locations or [""])[0]) / "static" / name).read_bytes()
