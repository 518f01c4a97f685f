"""What schemathesis is told about this API: values that exist here, bounded streams, rules that no schema can state.

It loads this file by its path, in its own process. A hook only ever puts one valid value in the place of another, so
that a request which is wrong stays wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from typing import Any

import schemathesis
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.hooks import HookContext
from schemathesis.openapi.checks import AllowHeaderMismatch, RejectedPositiveData

from gpu_runtime.api.v1alpha1.gpuunit import StorageMount
from gpu_runtime.api.validation import validate

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
OPERATION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
INVOCATION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
REQUEST_ID = re.compile(r"[a-z0-9_-]+")
WAIT = re.compile(r"(0|[1-9][0-9]{0,2})(ms|s|m)?")
ALSO_NAMES = ("/invocations/batch", "/dead-letters/redrive")
KEPT = "kept"  # a function that no generated request changes
SPEC = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
QUANTITY = re.compile(r"\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
ENTRY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DEFAULT_CLASS = "rook-ceph-block"
SOURCE = "def main(payload):\n    return payload\n"
SHORTEST_LIMIT = 57  # of all names: what is longer may be wrong somewhere
LONGEST = {OPERATION_ID: 128}
NAMES = 6  # so few that requests meet what others have made
MINE = os.environ.get("GPU_RUNTIME_TEST_NAMES", "n")  # what this run's names begin with: another runs at the same time
MORTAL = 2  # only the first of them are deleted
MOST_GPUS = 1024
ANYTHING = re.compile(r"(?s:.)*")
WARM_SPEC, WARM = "g1.1", {"cpu": "10m", "memory": "64Mi"}
SEMANTIC = tuple(
    re.compile(text)
    for text in (
        r"duplicates .*: each .* may occur once",
        r"duplicates .*: each storage may be mounted once",
        r"must not contain '\.\.': .*",
        r"must not be '/': .*",
        r".* is the platform's own",
        r".* is inside .*: mounts must not be nested",
        r"names no port\b.*",
        r"must have exactly one of httpGet, tcpSocket and exec, not \d",
        r"cannot stand beside value: set one of them",
        r"must be at most \d+ in one request",
        r"'.*' is too large: write an amount below 1e30",
        r"must be more than 0, such as 20Gi",
        r".* is not a whole number of bytes: .*",
        r".* is more than 16Ti, .*",
        r".* is smaller than .*: a storage can grow, never shrink",
        r"must have fromImage or fromStorageName\b.*",
        r"command and args need fromImage\b.*",
        r"fromImage needs command or args: .*",
        r"names this storage itself: name another one",
        r"the name must be a valid name of an HTTP header",
        r"the name must be 1 to 256 printable characters",
        r"must not have control characters, such as line breaks",
        r"headers and attributes must have at most \d+ bytes",
        r"must be async: the answer to a batch waits for no end",
        r"must be the `continue` value of a page of the same list",
        r"is required( unless the function has a handler: .*| when enabled: .*| for a worker without handler: .*)?",
        r"(command and args )?cannot stand beside (serverless\.)?handler, .*",
        r".* is the platform's own in a worker",
        r"names a Secret of the platform: .*",
        r"is not valid Python: .*",
        r"defines no \w+, which handler\.entry names",
        r"has \d+ bytes: at most \d+ are allowed",
        r"\d+ is more than maxWorkers, which is \d+",
    )
)
"""Refusals of what the schema allows: it has no words for references, unique keys, amounts with units and settings."""


def pick(value: object, most: int) -> int:
    """The same number for the same value, in every process."""
    return int.from_bytes(hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).digest()[:4]) % most


def put(fields: dict[str, Any], name: str, valid: re.Pattern[str], other: Callable[[str], object]) -> None:
    """Another valid value in the place of a valid one."""
    value = fields.get(name)
    if isinstance(value, str) and len(value) <= LONGEST.get(valid, SHORTEST_LIMIT) and valid.fullmatch(value):
        fields[name] = other(value)


def number(fields: dict[str, Any], name: str, lowest: int, highest: int, most: int) -> None:
    """No more than `most` of what is valid up to `highest`; 2.0 is a whole number too."""
    value = fields.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool) and value == int(value):
        fields[name] = min(value, most) if lowest <= value <= highest else value


def no_pods(pool: dict[str, Any]) -> None:
    """A pool as the API takes it, of which nothing runs: generated commands would crash on this machine for ever."""
    number(pool, "replicas", 0, 10_000, 0)


def no_accessor(storage: dict[str, Any]) -> None:
    """A storage whose files no pod serves."""
    accessor = storage.get("accessor")
    if isinstance(accessor, dict) and accessor.get("enabled") is True:
        accessor["enabled"] = False


def modest(storage: dict[str, Any], size: int) -> None:
    """A storage as the API takes it, of a few sizes. One that runs a generated command gets no volume."""
    put(storage, "size", QUANTITY, lambda _: f"{size}Gi")
    given = storage.get("prepare") is not None
    put(storage, "storageClassName", SUBDOMAIN, lambda value: value if given or not pick(value, 8) else DEFAULT_CLASS)
    if given and "storageClassName" not in storage:
        storage["storageClassName"] = "no-such-class"
    no_accessor(storage)


def few_mounts(unit: dict[str, Any]) -> None:
    """A unit that can be made: most generated storages do not exist."""
    mounts = unit.get("storageMounts")
    if isinstance(mounts, list) and not validate(list[StorageMount], mounts) and pick(mounts, 8):
        unit["storageMounts"] = []


def idle(unit: dict[str, Any]) -> None:
    """A unit as the API takes it that is no worker: each worker is a process more on this machine."""
    serverless = unit.get("serverless")
    if isinstance(serverless, dict) and serverless.get("enabled") is True and pick(serverless, 8):
        serverless["enabled"] = False


def runnable(function: dict[str, Any]) -> None:
    """A function as the API takes it, with source that can be parsed and without workers of its own."""
    number(function, "minWorkers", 0, 1000, 0)
    handler, unit = function.get("handler"), function.get("unit")
    if isinstance(handler, dict) and "source" in handler:
        put(handler, "entry", ENTRY, lambda _: "main")
        put(handler, "source", ANYTHING, lambda value: SOURCE if value and pick(value, 8) else value)
        if isinstance(unit, dict) and isinstance(unit.get("image"), str) and pick(unit, 8):
            unit["image"] = None
    if isinstance(unit, dict) and isinstance(unit.get("template"), dict) and pick(unit, 8):
        unit["template"] = {}


def callable_now(invocation: dict[str, Any]) -> None:
    """A call of a function that exists, whose answer waits for nothing."""
    put(invocation, "serverlessRequestID", REQUEST_ID, lambda value: KEPT if pick(value, 16) else value)
    put(invocation, "namespace", NAME, lambda value: place(value, ""))
    put(invocation, "invocationID", INVOCATION_ID, lambda value: f"made-{MINE}-{pick(value, 1000)}")
    at_once(invocation)


def at_once(invocation: dict[str, Any]) -> None:
    if invocation.get("mode") == "sync":
        invocation["waitSeconds"] = 0


@schemathesis.hook
def map_path_parameters(context: HookContext, path_parameters: dict[str, Any]) -> dict[str, Any]:
    if path_parameters:
        most = MORTAL if context.operation is not None and context.operation.method.upper() == "DELETE" else NAMES
        put(path_parameters, "name", NAME, lambda value: f"{MINE}-{pick(value, most)}")
        put(path_parameters, "operationID", OPERATION_ID, lambda value: f"op-{MINE}-{pick(value, NAMES)}")
        follows = context.operation is not None and context.operation.path.endswith("/stream")
        ended = f"ended-{MINE}"  # the stream of any other one would not end
        put(
            path_parameters,
            "invocationID",
            INVOCATION_ID,
            lambda value: ended if follows else f"inv-{MINE}-{pick(value, NAMES)}",
        )
    return path_parameters


@schemathesis.hook
def map_query(context: HookContext, query: dict[str, Any]) -> dict[str, Any]:
    if query:
        path = context.operation.path if context.operation is not None else ""
        put(query, "namespace", NAME, lambda value: place(value, path))
        put(query, "continue", ANYTHING, lambda value: "" if pick(value, 8) else value)
        put(query, "function", REQUEST_ID, lambda value: KEPT if pick(value, 8) else value)
        put(query, "wait", WAIT, lambda _: "1ms")
    return query


@schemathesis.hook
def map_body(context: HookContext, body: Any) -> Any:
    if not isinstance(body, dict) or context.operation is None:
        return body
    path, seen = context.operation.path, pick(body, 2**32)
    put(body, "name", NAME, lambda _: f"{MINE}-{seen % (2 * NAMES)}")
    put(body, "namespace", NAME, lambda value: place(value, path))
    put(body, "operationID", OPERATION_ID, lambda value: f"op-{MINE}-{seen if pick(value, 4) else seen % NAMES}")
    put(body, "stockNamespace", NAME, lambda value: "runtime-stock" if pick(value, 8) else value)
    few_mounts(body)
    idle(body)
    if "/serverless/functions" in path:
        runnable(body)
    if path.endswith(("/invocations", "/redrive")):
        callable_now(body)
    if path.endswith("/batch") and isinstance(body.get("invocations"), list):
        for each in body["invocations"]:
            if isinstance(each, dict):
                callable_now(each)
    if path.endswith("/stockpools"):
        no_pods(body)
    if path.endswith("/stock-units"):
        warm(body)
    if path.endswith("/gpu-storages"):
        modest(body, 1 + seen % 2)
    if path.endswith("/gpu-storages/{name}"):
        modest(body, 2 + seen % 2)
    if path.endswith("/gpu-units"):
        put(body, "specName", SPEC, lambda value: WARM_SPEC if pick(value, 16) else value)
    return body


def place(value: str, path: str) -> str:
    """Most requests go where they are allowed to."""
    return ("default" if "stockpools" in path else "runtime-instance") if pick(value, 10) else value


def warm(body: dict[str, Any]) -> None:
    """Each spec of one size, as it must be; some stock to hand over, the rest fits no machine and so costs none."""
    put(body, "specName", SPEC, lambda value: f"s-{pick(value, NAMES)}" if pick(value, 8) else WARM_SPEC)
    number(body, "replicas", 1, 1000, 1)
    for name, size in WARM.items():
        value = body.get(name)
        if value is None or (isinstance(value, str) and len(value) <= 64 and QUANTITY.fullmatch(value)):
            body[name] = size
    body.setdefault("gpu", 0)
    number(body, "gpu", 0, MOST_GPUS, 0)
    if body["gpu"] == 0 and body["gpu"] is not False and body.get("specName") != WARM_SPEC:
        body["gpu"] = MOST_GPUS


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Streams end by themselves, unless they never begin, and no pool or storage runs anything."""
    if case.query.get("watch") in (True, "true", "1"):
        case.query["timeoutSeconds"] = 1
    if case.query.get("follow") in (True, "true", "1"):
        case.query["follow"] = "false"
    if case.path.endswith("/stockpools") and isinstance(case.body, dict):
        no_pods(case.body)
    if "/gpu-storages" in case.path and isinstance(case.body, dict):
        no_accessor(case.body)
    if case.path.endswith("/invocations") and isinstance(case.body, dict):
        at_once(case.body)
    if isinstance(case.query.get("wait"), str) and WAIT.fullmatch(case.query["wait"]):
        case.query["wait"] = "1ms"


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case[Any], response: Response) -> bool:
    """Drops failures that are none: a request refused, in every point, by a rule that its schema cannot state; and
    GET in `Allow` of a path that is also the path of an object of this name."""
    if isinstance(failure, AllowHeaderMismatch) and case.path.endswith(ALSO_NAMES):
        return False
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 400:
        return True
    details = response.json()["error"].get("details", [])
    return not details or not all(any(rule.fullmatch(each["message"]) for rule in SEMANTIC) for each in details)
