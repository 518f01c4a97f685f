"""The server's process: start, stop, trouble."""

from __future__ import annotations

import signal
import stat
from functools import partial
from pathlib import Path

import pytest

from equipment.waiting import eventually
from local.apiserver.conftest import Api, Server, session_of


async def test_it_says_where_it_answers_and_drains_on_sigterm(server: Server) -> None:
    line = server.start()
    assert line == f"ready: {_url(server)} kubeconfig {server.kubeconfig}"
    async with session_of(server.kubeconfig) as session:
        api = Api(session)
        assert (await api("GET", "/readyz")).body == "ok"
        async with session.get("/api/v1/namespaces?watch=true") as watch:
            assert await watch.content.readline()
            assert server.end() == 0


def _url(server: Server) -> str:
    import json

    return str(json.loads(server.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])


async def test_what_was_answered_is_there_after_kill_9(server: Server) -> None:
    server.start()
    async with session_of(server.kubeconfig) as session:
        made = [await Api(session)("POST", CONFIGMAPS, configmap(f"a{number}")) for number in range(20)]
    server.end(signal.SIGKILL)
    server.start()
    async with session_of(server.kubeconfig) as session:
        api = Api(session)
        found = (await api("GET", CONFIGMAPS)).body
        assert [item["metadata"] for item in found["items"]] == sorted(
            (one.body["metadata"] for one in made), key=lambda meta: str(meta["name"])
        )
        since = made[9].body["metadata"]["resourceVersion"]
        events = await api.events(f"{CONFIGMAPS}?watch=true&resourceVersion={since}", 10)
        assert [event["object"]["metadata"]["name"] for event in events] == [f"a{number}" for number in range(10, 20)]


async def test_an_event_of_the_year_9999_does_not_end_the_compaction_of_history(server: Server) -> None:
    server.start("--history-seconds", "0.5")
    async with session_of(server.kubeconfig) as session:
        api = Api(session)
        event = {
            "metadata": {"name": "late"},
            "involvedObject": {"namespace": "default"},
            "lastTimestamp": "9999-12-31T23:59:59Z",
        }
        made = await api("POST", "/api/v1/namespaces/default/events", event)
        assert made.code == 201
        for name in ("first", "second"):  # the end of the task would leave the second one's past
            since = (await api("POST", CONFIGMAPS, configmap(name))).body["metadata"]["resourceVersion"]
            await api("DELETE", f"{CONFIGMAPS}/{name}")
            await eventually(partial(_is_forgotten, api, since), what=f"the past of {name} to be forgotten")
        assert (await api("GET", "/readyz")).body == "ok"


async def _is_forgotten(api: Api, version: str) -> bool:
    answer = await api("GET", f"{CONFIGMAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
    return answer.code == 410


CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def configmap(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"a": "b"}}


def test_secrets_are_readable_by_their_owner_only(server: Server) -> None:
    server.start()
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [server.data, *server.data.rglob("*")]}
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def test_a_second_server_on_one_data_dir_refuses_in_one_line(server: Server) -> None:
    server.start()
    second = Server(server.data)
    line = second.start()
    assert line.startswith(f"error: data directory {server.data} is in use by another API server (process ")
    assert second.process is not None
    assert second.process.communicate()[0] == ""
    assert second.process.returncode == 1


TROUBLES = {
    "an unreadable certificate": ("pki/server.crt", "error: cannot use certificate "),
    "an unreadable key": ("pki/server.key", "error: cannot use certificate "),
    "a file that is no database": ("cluster.db", "error: cannot open "),
}


@pytest.mark.parametrize(("name", "words"), TROUBLES.values(), ids=TROUBLES)
def test_trouble_at_start_is_one_clear_line(server: Server, name: str, words: str) -> None:
    server.start()
    server.end()
    (server.data / name).write_bytes(b"nonsense" * 100)
    line = server.start()
    assert line.startswith(words)
    assert server.process is not None
    assert server.process.communicate()[0] == ""
    assert server.process.returncode == 1
    server.process = None


def test_a_data_dir_that_is_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server = Server(tmp_path / "file")
    assert server.start() == f"error: cannot use data directory {tmp_path / 'file'}: File exists"
    assert server.process is not None
    server.process.communicate()
    assert server.process.returncode == 1


async def test_nobody_gets_in_without_credentials(server: Server) -> None:
    server.start()
    async with session_of(server.kubeconfig, token="") as session:
        assert (await Api(session)("GET", "/api/v1/secrets")).code == 403
        assert (await Api(session)("GET", "/healthz")).code == 200
    async with session_of(server.kubeconfig, token="wrong") as session:
        refused = await Api(session)("GET", "/api/v1/secrets")
        assert (refused.code, refused.body["reason"]) == (401, "Unauthorized")
