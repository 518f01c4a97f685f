"""A function from its five lines to a hundred calls, from zero workers and back to zero."""

from __future__ import annotations

from pathlib import Path

from equipment.waiting import eventually_sync
from equipment.walkthrough import Output, Walkthrough
from local.walkthroughs.site import OURS, Document, Site

STEPS = Path(__file__).parents[3] / "examples" / "serverless" / "walkthrough.sh"
FUNCTION = f"{OURS}/namespaces/runtime-instance/gpufunctions/hello"
UNITS = f"{OURS}/namespaces/runtime-instance/gpuunits"
PATIENCE = 120.0
MOST = 3


def test_a_function_is_called_from_zero_scaled_up_and_back_to_zero(site: Site) -> None:
    steps = Walkthrough(STEPS, site.shell)
    steps.curl("write a function")
    created = steps.curl("deploy it with one curl")
    assert created.status == 201
    until_workers(site, 0)
    assert steps.curl("look at it: no worker runs").status == 200

    accepted = steps.curl("call it")
    assert accepted.status == 202
    accepted_as = {"invocationID": "inv-1", "serverlessRequestID": "hello", "mode": "async", "state": "queued"}
    assert accepted.json["data"].items() >= {**accepted_as, "duplicate": False}.items()
    check_result(steps.curl("wait for the result"), {"hello": "queue"})
    check_result(steps.curl("call it and wait in one request"), {"hello": "sync"})
    again = steps.curl("send the first call again: nothing runs twice")
    assert again.status == 200
    assert again.json["data"]["duplicate"] is True
    assert again.json["data"]["body"] == {"hello": "queue"}

    check_a_hundred_calls(site, steps.curl("call it a hundred times"))
    assert "event: end" in steps.curl("watch one of them").text
    listed = steps.curl("list what has been done").json
    assert len(listed["data"]) == 5
    until_workers(site, 0)

    deployed = steps.step("deploy another one with kubectl")
    if deployed is not None:
        check_result(steps.curl("call that one"), "FROM KUBECTL")
        assert steps.step("delete them") is not None
        steps.finished()
        eventually_sync(lambda: site.get(FUNCTION) is None, within=PATIENCE, what="the function is gone")
        eventually_sync(lambda: workers(site) == [], within=PATIENCE, what="its workers are gone")


def check_result(answer: Output, body: object) -> None:
    assert answer.status == 200, answer
    data = answer.json["data"]
    assert (data["state"], data["statusCode"], data["body"], data["attempts"]) == ("succeeded", 200, body, 1)


def check_a_hundred_calls(site: Site, batch: Output) -> None:
    """All are accepted, more workers come but not more than allowed, and each call has its own result."""
    assert batch.status == 200
    assert [verdict["status"] for verdict in batch.json["data"]] == [202] * 100
    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, len(workers(site)))
        ended = site.shell.run(
            f"curl -s '{site.shell.url}/api/v1/serverless/invocations?function=hello&state=succeeded&limit=200'"
        ).json["data"]
        names = {each["invocationID"] for each in ended}
        assert names >= {f"many-{number}" for number in range(100)}, f"{len(names)} have ended"
        return True

    eventually_sync(done, within=2 * PATIENCE, what="a hundred calls have ended")
    assert 2 <= most <= MOST


def until_workers(site: Site, count: int) -> None:
    eventually_sync(lambda: len(workers(site)) == count, within=PATIENCE, what=f"{count} workers")


def workers(site: Site) -> list[Document]:
    return [each for each in site.items(UNITS) if each["metadata"]["name"].startswith("fn-hello-")]
