"""What a client can get wrong is refused at the edge, by name, and nothing is written."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from equipment.fault_proxy import FaultProxy, writes
from equipment.waiting import eventually
from kube.http.api import Places, pool_request, unit_request

POOLS, STOCK, UNITS, STORAGES = "/operator/stockpools", "/operator/stock-units", "/gpu-units", "/gpu-storages"
PORTS = [{"name": "http", "port": 80}]


def stock_request(**more: Any) -> dict[str, Any]:
    return {"operationID": "s", "specName": "g1.1", "memory": "1Gi", "gpu": 1, "replicas": 1, **more}


def storage_request(**more: Any) -> dict[str, Any]:
    return {"name": "data", "size": "1Gi", **more}


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


CASES: dict[str, tuple[str, Any, int, set[str]]] = {
    "an unknown field": (POOLS, pool_request(colour="red"), 400, {"colour"}),
    "an unknown field deep inside": (UNITS, unit_request(template={"portz": []}), 400, {"template.portz"}),
    "a wrong type": (POOLS, pool_request(replicas="two"), 400, {"replicas"}),
    "a fraction": (POOLS, pool_request(replicas=1.5), 400, {"replicas"}),
    "no operationID for a pool": (POOLS, without(pool_request(), "operationID"), 400, {"operationID"}),
    "no operationID for stock": (STOCK, without(stock_request(), "operationID"), 400, {"operationID"}),
    "no operationID for a unit": (UNITS, without(unit_request(), "operationID"), 400, {"operationID"}),
    "an empty operationID": (UNITS, unit_request(operationID=""), 400, {"operationID"}),
    "an amount that is none": (POOLS, pool_request(memory="not-a-quantity"), 400, {"memory"}),
    "a negative amount": (STOCK, stock_request(memory="-1Gi"), 400, {"memory"}),
    "negative GPUs": (STOCK, stock_request(gpu=-1), 400, {"gpu"}),
    "negative replicas": (POOLS, pool_request(replicas=-1), 400, {"replicas"}),
    "no stock units": (STOCK, stock_request(replicas=0), 400, {"replicas"}),
    "too many stock units": (STOCK, stock_request(replicas=1001), 400, {"replicas"}),
    "stock with an image": (STOCK, stock_request(image="python"), 400, {"image"}),
    "two envs of one name": (
        POOLS,
        pool_request(template={"envs": [{"name": "A"}, {"name": "A"}]}),
        400,
        {"template.envs[1].name"},
    ),
    "two ports of one name": (
        UNITS,
        unit_request(template={"ports": [*PORTS, {"name": "http", "port": 81}]}),
        400,
        {"template.ports[1].name"},
    ),
    "two ports of one number": (
        UNITS,
        unit_request(template={"ports": [*PORTS, {"name": "other", "port": 80}]}),
        400,
        {"template.ports[1].port"},
    ),
    "a primary port that is none": (
        UNITS,
        unit_request(access={"primaryPort": "grpc"}, template={"ports": PORTS}),
        400,
        {"access.primaryPort"},
    ),
    "a primary port without ports": (UNITS, unit_request(template={}), 400, {"access.primaryPort"}),
    "a bad image": (UNITS, unit_request(image="Not An Image"), 400, {"image"}),
    "a name that is no DNS label": (UNITS, unit_request(name="1-begins-with-a-digit"), 400, {"name"}),
    "a name in capitals": (POOLS, pool_request(name="Pool"), 400, {"name"}),
    "a name of 64 characters": (UNITS, unit_request(name="n" * 64), 400, {"name"}),
    "a stock namespace that is none": (UNITS, unit_request(stockNamespace="other"), 403, set()),
    "several at once": (
        UNITS,
        unit_request(image="", name="-", operationID="!", gpu=1),
        400,
        {"image", "name", "operationID", "gpu"},
    ),
    "a storage without a size": (STORAGES, {"name": "a"}, 400, {"size"}),
    "a storage of size nothing": (STORAGES, storage_request(size="0"), 400, {"size"}),
    "a storage of a negative size": (STORAGES, storage_request(size="-1Gi"), 400, {"size"}),
    "a storage of a size that is none": (STORAGES, storage_request(size="20GB"), 400, {"size"}),
    "a storage over the limit": (STORAGES, storage_request(size="17Ti"), 400, {"size"}),
    "a storage with an empty operationID": (STORAGES, storage_request(operationID=""), 400, {"operationID"}),
    "a prepare from itself": (
        STORAGES,
        storage_request(prepare={"fromStorageName": "data"}),
        400,
        {"prepare.fromStorageName"},
    ),
    "a prepare from two sources": (
        STORAGES,
        storage_request(prepare={"fromStorageName": "b", "fromImage": "c", "args": ["d"]}),
        400,
        {"prepare"},
    ),
    "a prepare from nothing": (STORAGES, storage_request(prepare={}), 400, {"prepare"}),
    "a command without an image": (STORAGES, storage_request(prepare={"command": ["a"]}), 400, {"prepare"}),
    "the stock namespace for a storage": (STORAGES, storage_request(namespace="STOCK"), 403, set()),
    "a storage's namespace that is not there": (STORAGES, storage_request(namespace="missing-1"), 404, set()),
    "a namespace of the cluster": (UNITS, unit_request(namespace="kube-system"), 403, set()),
    "the stock namespace for a unit": (UNITS, unit_request(namespace="STOCK"), 403, set()),
    "a namespace that is not served": (POOLS, pool_request(namespace="elsewhere"), 403, set()),
    "a namespace that is not there": (UNITS, unit_request(namespace="missing-1"), 404, set()),
    "a pool's namespace that is not there": (POOLS, pool_request(namespace="missing-1"), 404, set()),
}


async def test_bad_requests_are_refused_by_name_and_nothing_is_written(world: Places, fault_proxy: FaultProxy) -> None:
    async with world.api(fault_proxy.server) as api:
        for case, (path, body, status, fields) in CASES.items():
            where = {"namespace": world.stock} if body.get("namespace") == "STOCK" else {}
            answer = await api.post(path, {**body, **where})
            assert answer.status == status, (case, answer)
            if fields:
                assert (answer.code, answer.fields) == ("invalid_request", fields), (case, answer)
            elif status == 403:
                assert answer.code == "forbidden", case
            else:
                assert answer.code == "namespace_not_found", case
        assert fault_proxy.count(writes()) == 0


RAW: dict[str, tuple[dict[str, str], bytes, int, str]] = {
    "no JSON": ({"Content-Type": "application/json"}, b"{", 400, "invalid_request"),
    "no object": ({"Content-Type": "application/json"}, b"[]", 400, "invalid_request"),
    "nothing": ({"Content-Type": "application/json"}, b"", 400, "invalid_request"),
    "not UTF-8": ({"Content-Type": "application/json"}, b'{"a":"\xff"}', 400, "invalid_request"),
    "very deep": ({"Content-Type": "application/json"}, b'{"a":' * 5000 + b"1" + b"}" * 5000, 400, "invalid_request"),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=b", 415, "unsupported_media_type"),
    "plain text": ({"Content-Type": "text/plain"}, b"{}", 415, "unsupported_media_type"),
    "too large": ({"Content-Type": "application/json"}, b'{"a":"' + b"x" * 2_000_000 + b'"}', 413, "too_large"),
    "another host": ({"Content-Type": "application/json", "Host": "evil.example"}, b"{}", 403, "forbidden"),
}


async def test_what_is_no_proper_request_is_refused_in_the_same_envelope(
    world: Places, fault_proxy: FaultProxy
) -> None:
    async with world.api(fault_proxy.server) as api:
        for case, (headers, body, status, code) in RAW.items():
            url = f"{api.url}/api/v1{UNITS}"
            async with api.session.post(url, data=BytesIO(body), headers=headers) as response:
                answer = await response.json()
                assert (response.status, answer["error"]["code"]) == (status, code), (case, answer)
                assert response.headers["X-Request-ID"]
        assert fault_proxy.count(writes()) == 0


REFUSED = [
    ("GET", "/nothing", 404, "route_not_found"),
    ("PATCH", UNITS, 405, "method_not_allowed"),
    ("GET", f"{UNITS}?limit=0", 400, "invalid_request"),
    ("GET", f"{UNITS}?limit=x", 400, "invalid_request"),
    ("GET", f"{UNITS}?colour=red", 400, "invalid_request"),
    ("GET", f"{UNITS}?limit=1&limit=2", 400, "invalid_request"),
    ("GET", f"{UNITS}?labelSelector=a%20b", 400, "invalid_request"),
    ("GET", f"{UNITS}?continue=X", 400, "invalid_request"),
    ("GET", f"{UNITS}?watch=maybe", 400, "invalid_request"),
    ("GET", f"{UNITS}?namespace=kube-system", 403, "forbidden"),
    ("GET", f"{UNITS}/UPPER", 400, "invalid_request"),
    ("GET", f"{UNITS}/%2e%2e", 400, "invalid_request"),
    ("DELETE", f"{UNITS}/%2e", 400, "invalid_request"),
    ("GET", f"{UNITS}/nobody", 404, "gpu_unit_not_found"),
    ("GET", f"{UNITS}/nobody/logs", 404, "gpu_unit_not_found"),
    ("GET", f"{UNITS}/nobody/events", 404, "gpu_unit_not_found"),
    ("DELETE", f"{UNITS}/nobody", 404, "gpu_unit_not_found"),
    ("DELETE", f"{STOCK}/nobody", 404, "stock_unit_not_found"),
    ("GET", f"{POOLS}/nobody", 404, "stockpool_not_found"),
    ("GET", f"{STORAGES}/nobody", 404, "gpu_storage_not_found"),
    ("DELETE", f"{STORAGES}/nobody", 404, "gpu_storage_not_found"),
    ("POST", f"{STORAGES}/nobody/recover", 404, "gpu_storage_not_found"),
    ("GET", f"{STORAGES}/nobody/recover", 405, "method_not_allowed"),
    ("GET", f"{STORAGES}?namespace=kube-system", 403, "forbidden"),
    ("GET", "/operator/jobs/nobody", 404, "job_not_found"),
    ("GET", "/operator/jobs/a%20b", 400, "invalid_request"),
    ("GET", "/operator/jobs/a?type=other", 400, "invalid_request"),
    ("GET", "/operator/jobs?continue=x", 409, "conflict"),
]


async def test_every_refusal_has_its_code(world: Places) -> None:
    async with world.api() as api:
        for method, path, status, code in REFUSED:
            answer = await api.call(method, path)
            assert (answer.status, answer.code) == (status, code), (method, path, answer)
            if status == 405:
                assert answer.headers["Allow"] == ("POST" if path.endswith("/recover") else "GET,POST")


async def test_off_loopback_a_known_token_is_needed_and_names_the_owner(world: Places, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("# who may\nalice s3cret\nbob other\n")
    async with world.api(tokenFile=str(tokens)) as api:
        assert (await api.get("/health")).status == 200
        nobody = await api.get(UNITS)
        assert (nobody.status, nobody.code, nobody.headers["WWW-Authenticate"]) == (401, "unauthenticated", "Bearer")
        for wrong in ("Bearer nope", "Basic s3cret", "s3cret", "Bearer ", "Bearer S3CRET"):
            assert (await api.get(UNITS, headers={"Authorization": wrong})).status == 401, wrong
        alice = {"Authorization": "Bearer s3cret"}
        body = pool_request(namespace=world.instance)
        assert (await api.post(POOLS, body, headers=alice)).status == 202

        async def owned() -> bool:
            pools = await api.get(f"{POOLS}?namespace={world.instance}", headers=alice)
            return [pool["owner"] for pool in pools.data] == ["alice"]

        await eventually(owned, what="the list shows the pool and its owner")
        tokens.write_text("bob other\n")
        assert (await api.get(UNITS, headers=alice)).status == 401
        assert (await api.get(UNITS, headers={"Authorization": "Bearer other"})).status == 200
