"""A plain connection to the embedded server: one request after the other, and watches read line by line."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlencode, urlsplit

from realkube.api import Access

Json = dict[str, Any]


class Connection:
    """Keeps one connection open for requests; every watch gets one of its own."""

    def __init__(self, server: Access) -> None:
        self._server = server
        self._context = ssl.create_default_context(cafile=str(server.ca_file))
        self._requests = self._opened()

    def _opened(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(urlsplit(self._server.url).netloc, context=self._context, timeout=30)

    def close(self) -> None:
        self._requests.close()

    def send(self, method: str, path: str, body: object = None, content: str = "application/json") -> tuple[int, Json]:
        """The code and the document of one answer."""
        self._requests.request(method, path, None if body is None else json.dumps(body), self._headers(content))
        response = self._requests.getresponse()
        return response.status, json.loads(response.read())

    def watch_until(self, path: str, version: str, last: str) -> list[Json]:
        """The events after `version` up to that of the object named `last`, which must be about to come."""
        query = urlencode({"watch": "true", "resourceVersion": version})
        connection = self._opened()
        events: list[Json] = []
        try:
            connection.request("GET", f"{path}?{query}", headers=self._headers("application/json"))
            with connection.getresponse() as response:
                assert response.status == 200, response.read()
                while not events or events[-1]["object"]["metadata"].get("name") != last:
                    events.append(json.loads(response.readline()))
        finally:
            connection.close()
        return events

    def _headers(self, content: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._server.token}", "Content-Type": content}
