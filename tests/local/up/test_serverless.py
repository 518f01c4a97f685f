"""Serverless workers in `gpu-runtime up`: a function given as source, and a unit that is a static worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from equipment.installation import Up, running_up
from equipment.privileges import needs_root
from equipment.waiting import eventually_sync

pytestmark = needs_root("pods have no network of their own and reach no broker")
STOCK = {"operationID": "seed", "specName": "g1.1", "cpu": "10m", "memory": "128Mi", "gpu": 1, "replicas": 1}
FUNCTION = {
    "operationID": "fn-echo-001",
    "name": "echo",
    "namespace": "runtime-instance",
    "unit": {"specName": "cpu.small", "memory": "256Mi", "gpu": 0},
    "handler": {"source": 'def main(payload):\n    return {"got": payload}\n', "entry": "main"},
    "concurrency": 4,
    "minWorkers": 0,
    "maxWorkers": 3,
    "idleTimeoutSeconds": 30,
    "invocationTimeoutSeconds": 60,
    "retry": {"maxAttempts": 3, "backoffSeconds": [1]},
}
# A framework in nothing but the standard library: the contract is plain HTTP on a unix socket.
FRAMEWORK = """
import http.server, json, os, socketserver

class Framework(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer({})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer({"statusCode": 200, "body": {"worker": asked["workerName"], "got": asked["payload"]}})

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self):
        return "worker"

path = "/tmp/serverless-framework/framework.sock"
server = socketserver.ThreadingUnixStreamServer(path, Framework)
os.chmod(path, 0o666)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running_up(tmp_path_factory.mktemp("serverless") / "data", "--gpus", "1") as running:
        yield running


def invoked(up: Up, function: str, invocation: str, payload: Any) -> dict[str, Any]:
    """The end of an invocation, accepted first."""
    body = {"serverlessRequestID": function, "invocationID": invocation, "mode": "async", "payload": payload}

    def accepted() -> bool:
        status, said = up.call("POST", "/serverless/invocations", body)
        assert status in (200, 202), said
        return True

    eventually_sync(accepted, within=60, what="the function is known")

    def ended() -> dict[str, Any]:
        status, said = up.call("GET", f"/serverless/invocations/{invocation}?wait=20s")
        assert status == 200, said
        assert said["data"]["state"] not in ("queued", "running"), said
        found: dict[str, Any] = said["data"]
        return found

    return eventually_sync(ended, within=180, what=f"{invocation} ends")


def test_a_function_given_as_source_answers_from_zero_workers(up: Up) -> None:
    status, made = up.call("POST", "/serverless/functions", FUNCTION)
    assert status == 201, made
    ended = invoked(up, "echo", "inv-1", {"x": 1})
    assert (ended["state"], ended["statusCode"], ended["body"]) == ("succeeded", 200, {"got": {"x": 1}})
    assert (ended["attempts"], ended["workerName"]) == (1, "fn-echo-0")
    view = up.call("GET", "/serverless/functions/echo")[1]["data"]
    assert (view["workers"], view["queued"], view["running"]) == (1, 0, 0)
    assert up.call("DELETE", "/serverless/functions/echo")[0] == 204

    def gone() -> bool:
        units = up.call("GET", "/gpu-units")[1]["data"]
        return up.call("GET", "/serverless/functions/echo")[0] == 404 and not units

    eventually_sync(gone, within=120, what="the function is gone with its worker")


def test_a_unit_made_from_stock_is_a_static_worker(up: Up) -> None:
    assert up.call("POST", "/operator/stock-units", STOCK)[0] == 202
    block = {"enabled": True, "requestID": "static", "concurrency": 2}
    template = {"command": ["python", "-c", FRAMEWORK]}
    unit = {"operationID": "w-1", "name": "static-0", "specName": "g1.1", "image": "framework:1"}

    def handed_over() -> bool:
        status, said = up.call("POST", "/gpu-units", {**unit, "template": template, "serverless": block})
        assert status in (200, 201), said
        return True

    eventually_sync(handed_over, within=120, what="the stock is handed over")

    def serving() -> bool:
        view = up.call("GET", "/gpu-units/static-0")[1]["data"]
        assert (view["phase"], view["serverless"]["phase"]) == ("Ready", "Ready"), view
        return True

    eventually_sync(serving, within=120, what="the unit takes invocations")
    ended = invoked(up, "static", "inv-s-1", [1, 2])
    assert (ended["state"], ended["body"]) == ("succeeded", {"worker": "static-0", "got": [1, 2]})
    assert up.call("DELETE", "/gpu-units/static-0")[0] == 204
