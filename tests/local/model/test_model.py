"""Random writes, deletes, finalizers and watches: the server shows what the model says, and nothing else."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from equipment.servers import RUNNING_SERVER, use_running
from equipment.soak import Soak
from local.model.connection import Connection, Json
from local.model.model import Model, Thing
from realkube.api import Access
from realkube.process import Process, wait_until

NAMES = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["1", "2", "3"])
FINALIZERS = st.lists(st.sampled_from(["example.com/x", "example.com/y"]), unique=True).map(
    lambda some: tuple(sorted(some))
)
MERGE_PATCH = "application/merge-patch+json"
Versions = str | MultipleResults[str]
"""What a rule adds to the versions that a later rule may name: one, or none."""
EXAMPLES = int(os.environ.get("GPU_RUNTIME_MODEL_EXAMPLES", "100"))


def document(name: str, value: str, finalizers: tuple[str, ...], version: str = "") -> Json:
    metadata: Json = {"name": name, "finalizers": list(finalizers)}
    if version:
        metadata["resourceVersion"] = version
    return {"metadata": metadata, "data": {"value": value}}


def seen(body: Json) -> Thing:
    metadata = body["metadata"]
    finalizers = tuple(metadata.get("finalizers", []))
    return Thing(
        body["data"]["value"], finalizers, "deletionTimestamp" in metadata, metadata["resourceVersion"], metadata["uid"]
    )


class ServerMachine(RuleBasedStateMachine):
    """One client against the server, with the model at its side."""

    connection: ClassVar[Connection]
    versions: Bundle[str] = Bundle("versions")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        namespace = f"model-{secrets.token_hex(4)}"
        code, made = self.connection.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        assert code == 201, made
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.positions = {self._list_version(): 0}
        self.markers = 0

    @rule(target=versions, name=NAMES, value=VALUES, finalizers=FINALIZERS)
    def create(self, name: str, value: str, finalizers: tuple[str, ...]) -> Versions:
        wanted = self.model.create(name, value, finalizers)
        return self._check(name, wanted, self.connection.send("POST", self.path, document(name, value, finalizers)))

    @rule(target=versions, name=NAMES, value=VALUES, finalizers=FINALIZERS, guarded=st.booleans())
    def update(self, name: str, value: str, finalizers: tuple[str, ...], guarded: bool) -> Versions:
        thing = self.model.things.get(name)
        version = thing.version if thing and guarded else ""
        wanted = self.model.write(name, value, finalizers, version)
        body = document(name, value, finalizers, version)
        return self._check(name, wanted, self.connection.send("PUT", f"{self.path}/{name}", body))

    @rule(target=versions, name=NAMES, value=VALUES, version=versions)
    def update_with_any_version(self, name: str, value: str, version: str) -> Versions:
        thing = self.model.things.get(name)
        finalizers = thing.finalizers if thing else ()
        wanted = self.model.write(name, value, finalizers, version)
        body = document(name, value, finalizers, version)
        return self._check(name, wanted, self.connection.send("PUT", f"{self.path}/{name}", body))

    @rule(target=versions, name=NAMES, value=VALUES)
    def patch(self, name: str, value: str) -> Versions:
        thing = self.model.things.get(name)
        wanted = self.model.write(name, value, thing.finalizers if thing else (), "")
        answer = self.connection.send("PATCH", f"{self.path}/{name}", {"data": {"value": value}}, MERGE_PATCH)
        return self._check(name, wanted, answer)

    @rule(target=versions, name=NAMES, guarded=st.booleans())
    def delete(self, name: str, guarded: bool) -> Versions:
        thing = self.model.things.get(name)
        uid = thing.uid if thing and guarded else ""
        wanted = self.model.delete(name, uid)
        return self._check(name, wanted, self._delete(name, uid))

    @rule(target=versions, name=NAMES, value=VALUES)
    def drop_all_finalizers(self, name: str, value: str) -> Versions:
        """The last step of a deletion, if the object is being deleted."""
        wanted = self.model.write(name, value, (), "")
        return self._check(name, wanted, self.connection.send("PUT", f"{self.path}/{name}", document(name, value, ())))

    @rule(name=NAMES)
    def delete_another_of_that_name(self, name: str) -> None:
        wanted = self.model.delete(name, "another")
        assert self._delete(name, "another")[0] == wanted

    @rule(version=versions)
    def watch(self, version: str) -> None:
        """From any version on, every later change once and in order."""
        self.markers += 1
        marker = f"marker-{self.markers}"
        self.create_marker(marker)
        events = self.connection.watch_until(self.path, version, marker)
        got = [(event["type"], event["object"]["metadata"]["name"], seen(event["object"])) for event in events]
        versions = [int(thing.version) for _, _, thing in got]
        assert versions == sorted(set(versions))
        assert [(kind, name, bare(thing)) for kind, name, thing in got] == [
            (kind, name, bare(thing)) for kind, name, thing in self.model.log[self.positions[version] :]
        ]

    def create_marker(self, name: str) -> None:
        assert self.model.create(name, "marker", ()) == 201
        self._check(name, 201, self.connection.send("POST", self.path, document(name, "marker", ())))

    @invariant()
    def a_list_shows_everything_once_in_order(self) -> None:
        _, listed = self.connection.send("GET", self.path)
        got = [(item["metadata"]["name"], seen(item)) for item in listed["items"]]
        assert got == sorted(self.model.things.items())
        self.positions[listed["metadata"]["resourceVersion"]] = len(self.model.log)

    def _check(self, name: str, wanted: int, answer: tuple[int, Json]) -> Versions:
        """The code is the model's, the version is newer than all before, and an object is what the model has."""
        code, body = answer
        assert code == wanted, body
        if code >= 400:
            return multiple()
        found, thing = self.connection.send("GET", f"{self.path}/{name}"), self.model.things.get(name)
        if thing is None:
            assert found[0] == 404
            return multiple()
        observed = seen(found[1])
        if not thing.version:  # the model made a change: the server must have given it a new version
            assert int(observed.version) > max(map(int, self.positions))
            assert thing.uid in ("", observed.uid)
            self.model.things[name] = replace(thing, version=observed.version, uid=observed.uid)
        assert observed == self.model.things[name]
        self.positions[observed.version] = self.positions.get(observed.version, len(self.model.log))
        return observed.version

    def _delete(self, name: str, uid: str) -> tuple[int, Json]:
        options = {"preconditions": {"uid": uid}} if uid else None
        return self.connection.send("DELETE", f"{self.path}/{name}", options)

    def _list_version(self) -> str:
        return str(self.connection.send("GET", self.path)[1]["metadata"]["resourceVersion"])


def bare(thing: Thing) -> Thing:
    return replace(thing, version="", uid="")


@contextmanager
def server_of(folder: Path) -> Iterator[Access]:
    """The embedded server; the running one that the environment names, to hold the model itself against a real one."""
    if given := os.environ.get(RUNNING_SERVER):
        with use_running(Path(given), folder) as server:
            yield server
        return
    data = folder / "data"
    command = [sys.executable, "-m", "gpu_runtime.local.apiserver", "--data-dir", str(data)]
    process = Process("embedded", command, folder / "embedded.log")
    try:
        wait_until((data / "kubeconfig").exists, "the embedded server answers", [process])
        with use_running(data / "kubeconfig", folder) as server:
            yield server
    finally:
        process.kill()


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with server_of(tmp_path_factory.mktemp("model")) as server:
        opened = Connection(server)
        yield opened
        opened.close()


def test_a_client_observes_what_the_model_allows(connection: Connection, soak: Soak) -> None:
    ServerMachine.connection = connection
    run_state_machine_as_test(
        ServerMachine,
        settings=settings(
            max_examples=soak.rounds(EXAMPLES),
            stateful_step_count=25,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
