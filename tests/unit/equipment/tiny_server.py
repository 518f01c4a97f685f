"""Just enough of an API server to stand behind the proxy: one resource, resourceVersions, watches."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

from aiohttp import web

from equipment.servers import ApiServer

Document = dict[str, Any]


class TinyServer:
    """Serves ConfigMaps over plain HTTP, and keeps what it was asked."""

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.requests: list[web.Request] = []
        self.hangs_up_on: set[str] = set()
        self.url = ""
        self._versions = itertools.count(1)
        self._watchers: list[asyncio.Queue[Document | None]] = []
        collection = "/api/v1/namespaces/{namespace}/configmaps"
        app = web.Application(middlewares=[self._remember])
        app.router.add_post(collection, self._create)
        app.router.add_get(collection, self._list)
        app.router.add_get(collection + "/{name}", self._get)
        app.router.add_put(collection + "/{name}", self._update)
        app.router.add_delete(collection + "/{name}", self._delete)
        app.router.add_route("*", "/echo/{rest:.*}", self._echo)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def start(self) -> ApiServer:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return ApiServer(url=self.url, ca_file=Path("unused"), token="secret", kubeconfig=Path("unused"), version="1")

    async def stop(self) -> None:
        self.end_watches()
        await self._runner.cleanup()

    def end_watches(self) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(None)

    @property
    def methods(self) -> list[str]:
        """The methods it was asked for, in order."""
        return [request.method for request in self.requests]

    def publish(self, change: str, document: Document) -> None:
        for watcher in self._watchers:
            watcher.put_nowait({"type": change, "object": document})

    @web.middleware
    async def _remember(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(request)
        if request.method in self.hangs_up_on and request.transport:
            request.transport.abort()
        response: web.StreamResponse = await handler(request)
        return response

    async def _create(self, request: web.Request) -> web.Response:
        document = await request.json()
        name = document["metadata"]["name"]
        if name in self.objects:
            return web.json_response({"kind": "Status", "reason": "AlreadyExists", "code": 409}, status=409)
        return web.json_response(self._store("ADDED", name, document), status=201)

    async def _update(self, request: web.Request) -> web.Response:
        return web.json_response(self._store("MODIFIED", request.match_info["name"], await request.json()))

    async def _get(self, request: web.Request) -> web.Response:
        found = self.objects.get(request.match_info["name"])
        return web.json_response(found or {"kind": "Status", "code": 404}, status=200 if found else 404)

    async def _delete(self, request: web.Request) -> web.Response:
        gone = self.objects.pop(request.match_info["name"], None)
        if gone is None:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        self.publish("DELETED", gone)
        details = {"uid": gone["metadata"]["uid"]}
        return web.json_response({"kind": "Status", "status": "Success", "details": details})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            return await self._watch(request)
        metadata = {"resourceVersion": str(next(self._versions))}
        return web.json_response({"kind": "ConfigMapList", "metadata": metadata, "items": [*self.objects.values()]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        queue: asyncio.Queue[Document | None] = asyncio.Queue()
        self._watchers.append(queue)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while (event := await queue.get()) is not None:
            await response.write(web.json_response(event).body + b"\n")  # type: ignore[operator]
        return response

    async def _echo(self, request: web.Request) -> web.Response:
        """Answers with what arrived, so that a test can compare it with what was sent."""
        seen = {"raw_path": request.raw_path, "body": (await request.read()).decode(), "method": request.method}
        headers = [[name, value] for name, value in request.headers.items()]
        answer = web.json_response({**seen, "headers": headers}, status=418)
        answer.headers.add("Warning", "one")
        answer.headers.add("Warning", "two")
        return answer

    def _store(self, change: str, name: str, document: Document) -> Document:
        version = next(self._versions)
        uid = self.objects.get(name, {}).get("metadata", {}).get("uid") or f"uid-{version}"
        metadata = {**document["metadata"], "name": name, "uid": uid, "resourceVersion": str(version)}
        self.objects[name] = {**document, "metadata": metadata}
        self.publish(change, self.objects[name])
        return self.objects[name]
