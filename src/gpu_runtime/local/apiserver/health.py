"""`/readyz` and `/metrics`: whether the whole cluster works, and counters of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, ProcessCollector, generate_latest

from gpu_runtime.local.apiserver.calls import json_response

VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
Lacks = Callable[[], Mapping[str, str]]


def lacks_nothing() -> Mapping[str, str]:
    return {}


class Health:
    """Answers `/readyz` and `/metrics`. `lacks` names each part of the cluster that does not work yet, and why."""

    def __init__(self, lacks: Lacks, registry: CollectorRegistry) -> None:
        self._lacks, self._registry = lacks, registry
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "apiserver_request_total", "Requests answered; a watch when it has ended.", ["verb", "code"],
            registry=registry,
        )  # fmt: skip

    def answered(self, verb: str, code: int) -> None:
        self._requests.labels(verb if verb in VERBS else "other", code).inc()

    def ready(self) -> web.Response:
        problems = self._lacks()
        return json_response({"ready": False, "problems": problems}, 503) if problems else web.Response(text="ok")

    def metrics(self) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
