"""The served document and the served API, held against each other by thousands of generated requests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from equipment.installation import Up, running_up
from equipment.soak import Soak
from equipment.waiting import eventually_sync
from local.contract.invocation_cases import dead_letter_cases, furnish_invocations, invocation_cases
from local.contract.refusals import BASE, Process, runtime_api, unreachable, valid
from local.contract.report import Documented, Report

HERE = Path(__file__).parent
REQUESTS = 5000
SEED = int(os.environ.get("GPU_RUNTIME_TEST_SEED", "7db0b7e3"), 16)
BODY_BYTES = 65536
NAMES = 6
KEPT = "kept"
"""A unit that no generated request names: whether it runs does not depend on what they did last."""
TOKEN = "a-token-of-the-test"
RUNS: dict[str, tuple[str, ...]] = {
    "n": (),
    "m": ("--phases", "fuzzing", "--mode", "positive", "--max-examples", "160"),
}
"""Options of schemathesis, by what the names of each run begin with."""
FURNISHED_STOCK = {
    "operationID": "op-n-0",
    "specName": "g1.1",
    "cpu": "10m",
    "memory": "64Mi",
    "gpu": 0,
    "replicas": 3 * NAMES,
}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("contract")
    settings = {
        "limits": {"bodyBytes": BODY_BYTES, "stockUnits": 20},
        "allowedNamespaces": ["default", "runtime-instance", "missing"],
    }
    (folder / "config").mkdir()
    (folder / "config" / "runtime-api.yaml").write_text(json.dumps(settings))
    with running_up(folder / "data", "--gpus", "8", "--config", str(folder / "config")) as up:
        furnish(up)
        yield up


def furnish(up: Up) -> None:
    """Things for generated requests to meet: pools, units, storages and jobs of the few names that they use."""
    assert up.call("POST", "/operator/stock-units", FURNISHED_STOCK)[0] == 202
    for name in (KEPT, *(f"{run}-{number}" for run in RUNS for number in range(NAMES))):
        pool = {"operationID": f"op-{name}", "name": name, "specName": "g1.1", "replicas": 0}
        assert up.call("POST", "/operator/stockpools", pool)[0] == 202

        def handed_over(name: str = name) -> bool:
            return up.call("POST", "/gpu-units", furnished_unit(name))[0] == 201

        eventually_sync(handed_over, within=120, what="a unit is handed over")
        assert up.call("POST", "/gpu-storages", {"name": name, "size": "1Gi"})[0] == 201
        assert up.call("POST", "/serverless/functions", furnished_function(name))[0] == 201
    furnish_invocations(Process(up.port), KEPT, tuple(RUNS), NAMES)
    eventually_sync(lambda: up.call("GET", f"/gpu-units/{KEPT}")[1]["data"].get("phase") == "Ready", within=120)


def furnished_function(name: str) -> dict[str, Any]:
    unit = {"specName": "cpu.small", "image": "python:3.12"}
    return {"operationID": f"op-{name}", "name": name, "unit": unit, "maxWorkers": 1}


def furnished_unit(name: str) -> dict[str, Any]:
    unit = {"operationID": f"op-{name}", "name": name, "specName": "g1.1", "image": "python:3.12"}
    return {**unit, "template": {"command": ["sleep", "3600"]}}


@pytest.mark.timeout(2400)  # thousands of requests: minutes on an idle machine, several times that on a busy one
def test_every_answer_is_documented_and_every_documented_answer_is_seen(
    up: Up, tmp_path: Path, capsys: pytest.CaptureFixture[str], soak: Soak
) -> None:
    seed = SEED if soak.given_seed is None else soak.seed
    with urllib.request.urlopen(f"{up.url}/swagger/openapi.json") as answer:
        document = json.load(answer)
    documented = {
        (method.upper(), path, int(status))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for status in operation["responses"]
    }
    report = generated(up, tmp_path, seed)
    with capsys.disabled():
        sys.stdout.write(
            f"\nseed {seed:x}: {report.requests} requests, {100 * report.successes / report.requests:.0f} % 2xx, "
            f"{len(documented & report.answers.keys())} of {len(documented)} documented answers\n"
        )
    assert report.failures == []
    assert report.requests >= REQUESTS
    assert report.successes >= 0.3 * report.requests
    operations = {(method, path) for method, path, _ in documented}
    answered = {key for key in report.answers if key[:2] in operations}
    assert answered <= documented, answered - documented
    assert not any(status >= 500 or status == 0 for _, _, status in report.answers)
    answered |= by_hand(up, tmp_path, documented)
    with capsys.disabled():
        sys.stdout.write(f"{len(documented & answered)} of {len(documented)} with those brought about by hand\n")
    assert documented - answered == set()
    assert answered - documented == set()


def generated(up: Up, folder: Path, seed: int) -> Report:
    """Every phase with right and wrong requests, and right ones alone beside them, so that enough succeed."""
    config = folder / "schemathesis.toml"
    fixed = f"seed = {seed}\nhooks = '{HERE / 'generation.py'}'\n"
    config.write_text(fixed + (HERE / "schemathesis.toml").read_text())
    with ThreadPoolExecutor() as pool:  # each is one busy thread of Python, and has names of its own
        events = list(pool.map(lambda run: schemathesis(up, folder, config, *run), RUNS.items()))
    report = Report()
    for path in events:
        report.read(path)
    return report


def schemathesis(up: Up, folder: Path, config: Path, names: str, options: tuple[str, ...]) -> Path:
    """Where the events of one run are reported."""
    events = folder / f"events-{names}.ndjson"
    command = (Path(sys.executable).with_name("schemathesis"), "--config-file", config, "run")
    reporting = ("--no-shrink", "--report", "ndjson", "--report-ndjson-path", events)
    ended = subprocess.run(
        [*command, f"{up.url}/swagger/openapi.json", *reporting, *options],
        cwd=folder,
        env={**os.environ, "GPU_RUNTIME_TEST_NAMES": names},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0 or Report().read(events).failures, ended.stdout
    return events


def by_hand(up: Up, folder: Path, documented: set[Documented]) -> set[Documented]:
    """What only circumstances bring about: no token, another host, too much at once, no cluster, and some more."""
    seen: set[Documented] = set()
    tokens = folder / "tokens"
    tokens.write_text(f"tester {TOKEN}\n")
    tokens.chmod(0o600)
    here = Process(up.port)
    away = unreachable(up.kubeconfig, folder)
    with (
        runtime_api(
            folder / "guarded", up.kubeconfig, tokenFile=str(tokens), limits={"requestsInFlight": 1}
        ) as guarded,
        runtime_api(folder / "cut-off", away) as cut_off,
    ):
        with guarded.busy(TOKEN):
            eventually_sync(lambda: guarded.ask("GET", f"{BASE}/health")[0] == 429)
            seen |= all_answering(guarded, documented, 429)
        eventually_sync(lambda: guarded.ask("GET", f"{BASE}/health")[0] == 200)
        seen |= all_answering(guarded, documented, 401)
        seen |= all_answering(here, documented, 403, Host="elsewhere.example")
        seen |= all_answering(cut_off, documented, 503)
    # Furnishing handed units over, and insisted on it.
    seen |= special_cases(here) | storage_cases(here) | function_cases(here)
    seen |= invocation_cases(here, KEPT, "n-5") | dead_letter_cases(here, up.kubernetes(folder))
    seen |= stock_taken_back(up, folder) | storage_recovered(up)
    return seen | {("POST", f"{BASE}/gpu-units", 201)}


def all_answering(api: Process, documented: set[Documented], status: int, **headers: str) -> set[Documented]:
    """Every operation that documents the status gives it now, in the envelope and with its headers."""
    wanted = sorted(key for key in documented if key[2] == status)
    for method, path, _ in wanted:
        target, body = valid(method, path)
        got, answered, text = api.ask(method, target, body, headers)
        assert got == status, (method, path, got, text)
        assert json.loads(text)["error"]["code"], text
        assert status not in (429, 503) or int(answered["retry-after"]) >= 0
    return set(wanted)


def special_cases(api: Process) -> set[Documented]:
    """Answers that generation finds only by luck."""
    units, unit = f"{BASE}/gpu-units", f"{BASE}/gpu-units/{{name}}"
    pools, pool = f"{BASE}/operator/stockpools", f"{BASE}/operator/stockpools/{{name}}"
    stock, jobs = f"{BASE}/operator/stock-units", f"{BASE}/operator/jobs"
    stale, text = {"If-Match": '"1"'}, {"Content-Type": "text/plain"}
    new_unit = {"operationID": "by-hand", "name": "by-hand", "specName": "g1.1", "image": "python:3.12"}
    new_pool = {"operationID": "by-hand", "name": "by-hand", "specName": "g1.1", "replicas": 0}
    cases: tuple[tuple[str, str, str, Any, dict[str, str], int], ...] = (
        ("POST", units, "", furnished_unit(KEPT), {}, 200),
        ("POST", units, "", {**furnished_unit(KEPT), "image": "python:3.13"}, {}, 409),
        ("POST", units, "", {**new_unit, "namespace": "missing"}, {}, 404),
        ("PUT", unit, "n-5", {"image": "python:3.12"}, stale, 409),
        ("PUT", unit, "n-5", {"image": "python:3.13"}, {}, 200),
        ("PUT", unit, "nobody", {"image": "python:3.13"}, {}, 404),
        ("DELETE", unit, "n-5", None, stale, 409),
        ("GET", f"{unit}/logs", KEPT, None, {}, 200),
        ("GET", f"{unit}/events", KEPT, None, {}, 200),
        ("GET", unit, KEPT, None, {}, 200),
        ("GET", unit, "nobody", None, {}, 404),
        ("GET", f"{unit}/logs", "nobody", None, {}, 404),
        ("GET", f"{unit}/events", "nobody", None, {}, 404),
        ("DELETE", unit, "n-5", None, {}, 204),
        ("DELETE", unit, "n-5", None, {}, 404),
        ("POST", pools, "", {**new_pool, "namespace": "missing"}, {}, 404),
        ("POST", pools, "", new_pool, {}, 202),
        ("POST", pools, "", new_pool, {}, 200),
        ("POST", pools, "", {**new_pool, "gpu": 1}, {}, 409),
        ("GET", pool, "by-hand", None, {}, 200),
        ("DELETE", pool, "by-hand", None, {}, 204),
        ("DELETE", pool, "by-hand", None, {}, 404),
        ("GET", pool, "by-hand", None, {}, 404),
        ("POST", stock, "", FURNISHED_STOCK, {}, 200),
        ("POST", stock, "", {**FURNISHED_STOCK, "replicas": 1}, {}, 409),
        ("GET", f"{jobs}/{{operationID}}", "by-hand", None, {}, 200),
        ("GET", f"{jobs}/{{operationID}}", "nobody", None, {}, 404),
        ("GET", jobs, "?continue=of-no-page", None, {}, 409),
        *(("POST", each, "", {"operationID": "x" * BODY_BYTES}, {}, 413) for each in (units, pools, stock)),
        ("PUT", unit, KEPT, {"image": "x" * BODY_BYTES}, {}, 413),
        *(("POST", each, "", {}, text, 415) for each in (units, pools, stock)),
        ("PUT", unit, KEPT, {}, text, 415),
    )
    return asked(api, cases)


def storage_cases(api: Process) -> set[Documented]:
    """The same for storages."""
    storages, storage = f"{BASE}/gpu-storages", f"{BASE}/gpu-storages/{{name}}"
    stale, text = {"If-Match": '"1"'}, {"Content-Type": "text/plain"}
    new = {"name": "by-hand", "size": "1Gi"}
    return asked(
        api,
        (
            ("POST", storages, "", {**new, "namespace": "missing"}, {}, 404),
            ("POST", storages, "", new, {}, 201),
            ("POST", storages, "", new, {}, 200),
            ("POST", storages, "", {**new, "size": "2Gi"}, {}, 409),
            ("GET", storage, "by-hand", None, {}, 200),
            ("GET", storage, "nobody", None, {}, 404),
            ("PUT", storage, "by-hand", {"size": "2Gi"}, {}, 200),
            ("PUT", storage, "by-hand", {"size": "3Gi"}, stale, 409),
            ("PUT", storage, "nobody", {"size": "3Gi"}, {}, 404),
            ("POST", f"{storage}/recover", "by-hand", None, {}, 409),
            ("POST", f"{storage}/recover", "nobody", None, {}, 404),
            ("DELETE", storage, "by-hand", None, stale, 409),
            ("DELETE", storage, "by-hand", None, {}, 204),
            ("DELETE", storage, "nobody", None, {}, 404),
            ("POST", storages, "", {"name": "x" * BODY_BYTES}, {}, 413),
            ("PUT", storage, KEPT, {"size": "x" * BODY_BYTES}, {}, 413),
            ("POST", storages, "", {}, text, 415),
            ("PUT", storage, KEPT, {}, text, 415),
        ),
    )


def function_cases(api: Process) -> set[Documented]:
    """The same for serverless functions."""
    functions, function = f"{BASE}/serverless/functions", f"{BASE}/serverless/functions/{{name}}"
    stale, text = {"If-Match": '"1"'}, {"Content-Type": "text/plain"}
    new = furnished_function("by-hand")
    return asked(
        api,
        (
            ("POST", functions, "", {**new, "namespace": "missing"}, {}, 404),
            ("POST", functions, "", new, {}, 201),
            ("POST", functions, "", new, {}, 200),
            ("POST", functions, "", {**new, "maxWorkers": 2}, {}, 409),
            ("GET", function, "by-hand", None, {}, 200),
            ("GET", function, "nobody", None, {}, 404),
            ("PUT", function, "by-hand", {"maxWorkers": 2}, {}, 200),
            ("PUT", function, "by-hand", {"maxWorkers": 3}, stale, 409),
            ("PUT", function, "nobody", {"maxWorkers": 3}, {}, 404),
            ("DELETE", function, "by-hand", None, stale, 409),
            ("DELETE", function, "by-hand", None, {}, 204),
            ("DELETE", function, "nobody", None, {}, 404),
            ("POST", functions, "", {"name": "x" * BODY_BYTES}, {}, 413),
            ("PUT", function, KEPT, {"maxWorkers": "x" * BODY_BYTES}, {}, 413),
            ("POST", functions, "", {}, text, 415),
            ("PUT", function, KEPT, {}, text, 415),
        ),
    )


def asked(api: Process, cases: tuple[tuple[str, str, str, Any, dict[str, str], int], ...]) -> set[Documented]:
    """Asks each, and insists on its status."""
    for method, path, name, body, headers, status in cases:
        target = re.sub(r"{\w+}", name, path) if "{" in path else path + name
        got, _, said = api.ask(method, target, body, headers)
        assert got == status, (method, target, got, said)
    return {(method, path, status) for method, path, _, _, _, status in cases}


def stock_taken_back(up: Up, folder: Path) -> set[Documented]:
    """Free stock can be taken back, once; claimed stock cannot."""
    body = {"operationID": "taken-back", "specName": "by-hand", "replicas": 2}
    assert up.call("POST", "/operator/stock-units", body)[0] == 202

    def made() -> list[str]:
        _, listed = up.call("GET", "/operator/stock-units?limit=500")
        names = [each["name"] for each in listed["data"] if each["specName"] == "by-hand"]
        assert len(names) == 2
        return names

    free, claimed = eventually_sync(made, within=60, what="the stock is made")
    path = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/runtime-stock/gpuunits/{claimed}"
    patch = {"metadata": {"annotations": {"runtime.lokiwager.io/claimed-by": "somebody"}}}
    up.kubernetes(folder).request("PATCH", path, patch, "application/merge-patch+json")
    for name, status in ((claimed, 409), (free, 204), (free, 404)):
        assert up.call("DELETE", f"/operator/stock-units/{name}")[0] == status
    taken = {("DELETE", f"{BASE}/operator/stock-units/{{name}}", status) for status in (204, 404, 409)}
    return {*taken, ("POST", f"{BASE}/operator/stock-units", 202)}


def storage_recovered(up: Up) -> set[Documented]:
    """A prepare that failed can be recovered."""
    storage = {"name": "refill", "size": "1Gi", "prepare": {"fromImage": "python:3.12", "command": ["false"]}}
    assert up.call("POST", "/gpu-storages", storage)[0] == 201

    def recovered() -> bool:
        return up.call("POST", "/gpu-storages/refill/recover")[0] == 200

    eventually_sync(recovered, within=120, what="the failed prepare is recovered")
    return {("POST", f"{BASE}/gpu-storages/{{name}}/recover", 200)}
