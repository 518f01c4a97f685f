"""Stock and units through the REST API, asked for as often as it takes: every request may be sent again."""

from __future__ import annotations

import urllib.request
from typing import Any

from equipment.installation import Up
from equipment.waiting import eventually_sync

PATIENCE = 90.0


def insist(up: Up, method: str, path: str, body: object = None, *, good: tuple[int, ...]) -> Any:
    """The answer's document, when one of the good statuses comes; a refusal that waiting cannot cure fails."""

    def ask() -> tuple[int, Any]:
        status, document = up.call(method, path, body)
        assert status in good, f"{method} {path}: {status} {document}"
        return status, document

    return eventually_sync(ask, within=PATIENCE, what=f"{method} {path} is answered")[1]


def seed(up: Up, operation: str, replicas: int = 1) -> None:
    """Warm stock, ready to be consumed."""
    body = {"operationID": operation, "specName": "g1.1", "memory": "16Gi", "gpu": 1, "replicas": replicas}
    insist(up, "POST", "/operator/stock-units", body, good=(200, 202))


def create(up: Up, name: str) -> None:
    """A unit that serves a page, out of stock."""
    body = {
        "operationID": f"create-{name}",
        "name": name,
        "specName": "g1.1",
        "image": "python:3.12",
        "template": {
            "command": ["python"],
            "args": ["-m", "http.server", "8080"],
            "ports": [{"name": "http", "port": 8080}],
        },
    }
    insist(up, "POST", "/gpu-units", body, good=(200, 201))


def until_ready(up: Up, name: str) -> dict[str, Any]:
    def probe() -> dict[str, Any]:
        view: dict[str, Any] = insist(up, "GET", f"/gpu-units/{name}", good=(200,))["data"]
        assert view.get("phase") == "Ready", view
        return view

    return eventually_sync(probe, within=PATIENCE, what=f"{name} is ready")


def page(url: str) -> str:
    """What a browser is shown there."""

    def read() -> str:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                content: bytes = answer.read()
        except OSError as error:
            raise AssertionError(f"{url}: {error}") from error
        return content.decode()

    return eventually_sync(read, within=PATIENCE, what=f"{url} opens")
