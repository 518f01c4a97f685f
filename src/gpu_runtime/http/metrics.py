"""The metrics of the API."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gpu_runtime.http.load import Load


class Metrics:
    """Requests by route, not by path: each object name would create a new time series."""

    def __init__(self, registry: CollectorRegistry, load: Load) -> None:
        self._requests = Counter(
            "http_requests", "Requests by how they were answered.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "http_request_seconds",
            "Time to the answer; streams are not counted.",
            ["method", "route"],
            registry=registry,
        )
        in_flight = Gauge("http_requests_in_flight", "Requests being answered now.", registry=registry)
        in_flight.set_function(lambda: load.now)

    def ended(self, request: web.Request, response: web.StreamResponse, seconds: float) -> None:
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else "unknown"
        self._requests.labels(request.method if resource is not None else "any", route, str(response.status)).inc()
        if isinstance(response, web.Response):
            self._seconds.labels(request.method, route).observe(seconds)
