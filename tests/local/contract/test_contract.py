"""The served document and the served API, held against each other by thousands of generated requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from equipment.installation import Up, running_up
from equipment.waiting import eventually_sync
from local.contract.refusals import BASE, Process, runtime_api, unreachable, valid
from local.contract.report import Documented, Report

HERE = Path(__file__).parent
REQUESTS = 5000
SEED = int(os.environ.get("GPU_RUNTIME_TEST_SEED", "7db0b7e3"), 16)
BODY_BYTES = 65536
NAMES = 6
TOKEN = "a-token-of-the-test"


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
    """Things for generated requests to meet: pools, units and jobs of the few names that they use."""
    size = {"specName": "g1.1", "cpu": "10m", "memory": "64Mi", "gpu": 0}
    assert up.call("POST", "/operator/stock-units", {"operationID": "op-0", **size, "replicas": 2 * NAMES})[0] == 202
    for number in range(NAMES):
        pool = {"operationID": f"op-{number}", "name": f"n-{number}", "specName": "g1.1", "replicas": 0}
        assert up.call("POST", "/operator/stockpools", pool)[0] == 202

        def handed_over(number: int = number) -> bool:
            unit = {"operationID": f"op-{number}", "name": f"n-{number}", "specName": "g1.1", "image": "python:3.12"}
            return up.call("POST", "/gpu-units", {**unit, "template": {"command": ["sleep", "3600"]}})[0] == 201

        eventually_sync(handed_over, within=120, what="a unit is handed over")
    eventually_sync(lambda: up.call("GET", "/gpu-units/n-5")[1]["data"].get("phase") == "Ready", within=120)


def test_every_answer_is_documented_and_every_documented_answer_is_seen(
    up: Up, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with urllib.request.urlopen(f"{up.url}/swagger/openapi.json") as answer:
        document = json.load(answer)
    documented = {
        (method.upper(), path, int(status))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for status in operation["responses"]
    }
    report = generated(up, tmp_path)
    with capsys.disabled():
        sys.stdout.write(
            f"\nseed {SEED:x}: {report.requests} requests, {100 * report.successes / report.requests:.0f} % 2xx, "
            f"{len({key for key in report.answers if key in documented})} of {len(documented)} documented answers\n"
        )
    assert report.failures == []
    assert report.requests >= REQUESTS
    assert report.successes >= 0.3 * report.requests
    operations = {(method, path) for method, path, _ in documented}
    answered = {key for key in report.answers if key[:2] in operations}
    assert answered <= documented, answered - documented
    assert not any(status >= 500 or status == 0 for _, _, status in report.answers)
    answered |= by_hand(up, tmp_path, documented)
    assert documented - answered == set()
    assert answered - documented == set()


def generated(up: Up, folder: Path) -> Report:
    """Every phase with right and wrong requests, and then right ones alone, so that enough of them succeed."""
    config = folder / "schemathesis.toml"
    fixed = f"seed = {SEED}\nhooks = '{HERE / 'generation.py'}'\n"
    config.write_text(fixed + (HERE / "schemathesis.toml").read_text())
    report = Report()
    for number, options in enumerate(((), ("--phases", "fuzzing", "--mode", "positive", "--max-examples", "160"))):
        events, said = folder / f"events-{number}.ndjson", folder / f"said-{number}"
        command = (Path(sys.executable).with_name("schemathesis"), "--config-file", config, "run")
        reporting = ("--no-shrink", "--report", "ndjson", "--report-ndjson-path", events)
        with said.open("wb") as out:
            ended = subprocess.run(
                [*command, f"{up.url}/swagger/openapi.json", *reporting, *options],
                cwd=folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
            )
        report.read(events)
        assert ended.returncode == 0 or report.failures, said.read_text()
    return report


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
    return seen | special_cases(here) | stock_taken_back(up, folder) | {("POST", f"{BASE}/gpu-units", 201)}


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
    pools, stock = f"{BASE}/operator/stockpools", f"{BASE}/operator/stock-units"
    stale = {"If-Match": '"1"'}
    new_unit = {"operationID": "by-hand", "name": "by-hand", "specName": "g1.1", "image": "python:3.12"}
    cases: tuple[tuple[str, str, str, Any, dict[str, str], int], ...] = (
        ("PUT", unit, "n-5", {"image": "python:3.12"}, stale, 409),
        ("PUT", unit, "n-5", {"image": "python:3.13"}, {}, 200),
        ("DELETE", unit, "n-5", None, stale, 409),
        ("GET", f"{unit}/logs", "n-4", None, {}, 200),
        ("GET", f"{unit}/events", "n-4", None, {}, 200),
        ("GET", unit, "n-4", None, {}, 200),
        ("GET", unit, "nobody", None, {}, 404),
        ("GET", f"{unit}/logs", "nobody", None, {}, 404),
        ("GET", f"{unit}/events", "nobody", None, {}, 404),
        ("POST", units, "", {**new_unit, "namespace": "missing"}, {}, 404),
        ("DELETE", unit, "n-5", None, {}, 204),
        ("DELETE", unit, "n-5", None, {}, 404),
        (
            "POST",
            pools,
            "",
            {"operationID": "by-hand", "specName": "a", "replicas": 0, "namespace": "missing"},
            {},
            404,
        ),
        *(("POST", each, "", {"operationID": "x" * BODY_BYTES}, {}, 413) for each in (units, pools, stock)),
        ("PUT", unit, "n-4", {"image": "x" * BODY_BYTES}, {}, 413),
        *(("POST", each, "", {}, {"Content-Type": "text/plain"}, 415) for each in (units, pools, stock)),
        ("PUT", unit, "n-4", {}, {"Content-Type": "text/plain"}, 415),
    )
    for method, path, name, body, headers, status in cases:
        got, _, text = api.ask(method, path.replace("{name}", name), body, headers)
        assert got == status, (method, path, got, text)
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
    return {("DELETE", f"{BASE}/operator/stock-units/{{name}}", status) for status in (204, 404, 409)}
