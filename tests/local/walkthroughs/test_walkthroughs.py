from __future__ import annotations

import shutil
from pathlib import Path

from equipment.waiting import eventually_sync
from equipment.walkthrough import PRINTED_MEMORY
from local.up.units import page
from local.walkthroughs.site import OURS, Document, Site, ready_condition

CHECKOUT = Path(__file__).parents[3]
POOLS = f"{OURS}/namespaces/default/stockpools"
STOCK = f"{OURS}/namespaces/runtime-stock/gpuunits"
INSTANCES = f"{OURS}/namespaces/runtime-instance/gpuunits"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
SERVICES = "/api/v1/namespaces/{}/services"
NOTES = "runtime.lokiwager.io"


def test_a_request_becomes_a_pool_and_the_pool_a_deployment(site: Site) -> None:
    shutil.copytree(CHECKOUT / "config", site.shell.folder / "config")
    steps = site.walkthrough("stock_pool.sh")
    steps.step("install the kind")

    created = steps.curl("create a pool")
    assert created.status == 202
    assert created.json["data"]["operationID"] == "pool-g1-001"

    pool = site.until_phase(f"{POOLS}/pool-g1", "Ready")
    expected = {"specName": "g1.1", "image": "nginx:1.27", "memory": site.shell.memory, "gpu": 1, "replicas": 2}
    assert pool["spec"] == expected
    assert pool["status"]["available"] == 2
    assert pool["status"]["observedGeneration"] == pool["metadata"]["generation"]

    deployment = site.must_get(f"{DEPLOYMENTS.format('default')}/pool-pool-g1")
    assert deployment["spec"]["replicas"] == 2
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "nginx:1.27"
    assert container["resources"]["limits"] == {"memory": site.shell.memory, "nvidia.com/gpu": "1"}
    assert deployment["metadata"]["ownerReferences"][0]["uid"] == pool["metadata"]["uid"]

    shown = steps.step("look at the pool")
    assert shown is None or shown.yaml["spec"] == expected
    listed = steps.step("look at the deployments")
    assert listed is None or "pool-pool-g1" in listed.text
    steps.finished()


def test_a_repeated_request_has_one_effect_and_the_status_tells_the_rest(site: Site) -> None:
    steps = site.walkthrough("repeated_requests.sh")
    assert "swagger" in steps.curl("open the API docs").text.lower()

    first = steps.curl("create a stock pool with a real runtime template")
    assert first.status == 202
    payload = steps.payload("create a stock pool with a real runtime template")
    (site.shell.folder / "same-request.json").write_text(payload.replace(PRINTED_MEMORY, site.shell.memory))
    until_job_succeeded(site, "stock-g1-demo-001")
    second = steps.curl("send the same request again")
    assert second.status == 200
    assert first.json["data"]["operationID"] == second.json["data"]["operationID"] == "stock-g1-demo-001"
    other = steps.curl("reuse the same operationID with a different payload")
    assert other.status == 409
    assert other.json["error"]["code"] == "operation_conflict"

    pool = site.until_phase(f"{POOLS}/pool-g1-demo", "Ready")
    assert pool["metadata"]["annotations"][f"{NOTES}/operation-id"] == "stock-g1-demo-001"
    assert f"{NOTES}/request-hash" in pool["metadata"]["annotations"]
    assert pool["status"]["serviceName"] == "pool-pool-g1-demo"
    assert ready_condition(pool)["reason"] == "DeploymentReady"
    assert site.must_get(f"{SERVICES.format('default')}/pool-pool-g1-demo")["spec"]["ports"][0]["port"] == 8080

    shown = steps.step("inspect the pool")
    assert shown is None or shown.yaml["status"]["phase"] == "Ready"
    for step in ("inspect the deployment", "inspect the service"):
        listed = steps.step(step)
        assert listed is None or "pool-pool-g1-demo" in listed.text
    message = steps.step("inspect the message of the condition")
    assert message is None or message.text == ready_condition(pool)["message"]

    invalid = steps.curl("send an invalid memory quantity")
    assert invalid.status == 400
    assert [detail["field"] for detail in invalid.json["error"]["details"]] == ["memory"]
    assert site.get(f"{POOLS}/pool-invalid") is None
    steps.finished()
    check_bad_object_written_by_hand(site)


def test_one_warm_unit_is_consumed_and_becomes_a_running_instance(site: Site) -> None:
    steps = site.walkthrough("hand_over.sh")
    assert steps.curl("seed two stock reservations").status == 202
    job = steps.curl("check the operator job")
    assert job.status == 200
    assert job.json["data"]["operationID"] == "stock-g1-demo-001"
    seeded = until_ready_stock(site, 2)

    created = steps.curl("consume one ready stock unit")
    assert created.status == 201
    assert created.json["data"]["name"] == "demo-instance"
    unit = site.until_phase(f"{INSTANCES}/demo-instance", "Ready")
    left = until_ready_stock(site, 1)
    check_instance(site, unit, consumed=seeded[0] if left[0] == seeded[1] else seeded[1])

    for step in ("list the active units", "inspect the active unit", "inspect its workload"):
        listed = steps.step(step)
        assert listed is None or "demo-instance" in listed.text
    stock = steps.step("check stock")
    assert stock is None or stock.text.count(left[0]["metadata"]["name"]) == 2
    active = steps.step("check the active runtime")
    assert active is None or "accessURL: " in active.text
    steps.finished()
    if site.runs_programs():
        check_page(site, unit)


def until_job_succeeded(site: Site, operation_id: str) -> None:
    line = f"curl -s {site.shell.url}/api/v1/operator/jobs/{operation_id}"
    eventually_sync(lambda: site.shell.run(line).json["data"]["status"] == "succeeded", what="the job has succeeded")


def check_bad_object_written_by_hand(site: Site) -> None:
    """It says itself what is wrong with it."""
    pool = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "StockPool",
        "metadata": {"name": "pool-by-hand", "namespace": "default"},
        "spec": {"specName": "g1.1", "memory": "not-a-quantity", "replicas": 1},
    }
    assert site.kubernetes.request("POST", POOLS, pool).status == 201
    failed = site.until_phase(f"{POOLS}/pool-by-hand", "Failed")
    assert ready_condition(failed)["reason"] == "InvalidSpec"
    assert "not-a-quantity" in ready_condition(failed)["message"]


def until_ready_stock(site: Site, count: int) -> list[Document]:
    """The stock, when so many are left and all are ready."""

    def probe() -> list[Document]:
        found = site.items(STOCK)
        assert [each.get("status", {}).get("phase") for each in found] == ["Ready"] * count
        return found

    return eventually_sync(probe, what=f"{count} stock units are ready")


def check_instance(site: Site, unit: Document, consumed: Document) -> None:
    """An active unit keeps the envelope of the stock that it consumed, and names it in annotations alone."""
    stock = consumed["spec"]
    assert stock == {"specName": "g1.1", "memory": site.shell.memory, "gpu": 1}
    assert not {"serviceName", "accessURL"} & consumed["status"].keys()
    assert {key: unit["spec"][key] for key in stock} == stock
    assert unit["spec"]["image"] == "python:3.12"
    assert unit["status"]["serviceName"] == "demo-instance"
    assert unit["status"]["accessURL"]
    notes = unit["metadata"]["annotations"]
    assert notes[f"{NOTES}/source-stock-name"] == consumed["metadata"]["name"]
    assert notes[f"{NOTES}/source-stock-namespace"] == "runtime-stock"
    assert notes[f"{NOTES}/source-stock-uid"] == consumed["metadata"]["uid"]
    assert consumed["metadata"]["name"] not in str(unit["spec"])
    assert site.get(f"{DEPLOYMENTS.format('runtime-instance')}/demo-instance") is not None
    assert site.get(f"{SERVICES.format('runtime-instance')}/demo-instance") is not None
    assert site.items(SERVICES.format("runtime-stock")) == []


def check_page(site: Site, unit: Document) -> None:
    """The unit's page, over its pod's address and through its access URL."""
    pods = site.items("/api/v1/namespaces/runtime-instance/pods")
    address = next(pod["status"]["podIP"] for pod in pods if pod["metadata"]["name"].startswith("demo-instance"))
    for url in (f"http://{address}:8080/", unit["status"]["accessURL"]):
        assert "Directory listing for" in page(url)  # the proxy hears of a unit a moment after us
