"""Functions: what a request makes, changes and deletes, on an API in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from equipment.builders import a_function
from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.annotations import PENDING_INVOCATIONS
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction, RetryPolicy
from gpu_runtime.rest import errors as rest
from gpu_runtime.rest.function_requests import CreateGPUFunction, UpdateGPUFunction
from gpu_runtime.rest.function_views import FunctionView
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.service.cluster import GPU_FUNCTIONS, OPERATIONS
from gpu_runtime.service.functions.changes import changed_spec
from gpu_runtime.service.functions.view import listed_function
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory, Process
from unit.service.replica import Replica, a_world

SOURCE = 'def main(payload):\n    return {"got": payload}\n'
SENT: dict[str, Any] = {
    "operationID": "fn-echo-001",
    "name": "echo",
    "unit": {"specName": "cpu.small", "memory": "256Mi", "gpu": 0},
    "handler": {"source": SOURCE, "entry": "main"},
    "concurrency": 4,
    "minWorkers": 0,
    "maxWorkers": 3,
    "retry": {"maxAttempts": 3, "backoffSeconds": [1]},
}


def create(memory: Memory, **more: Any) -> tuple[FunctionView, bool]:
    sent = {**SENT, **more}
    return finish(Replica(memory).listen().functions.create(parse(CreateGPUFunction, sent), sent, "alice"))


def stored(memory: Memory) -> GPUFunction:
    (function,) = memory.of_kind(GPU_FUNCTIONS)
    return function


def test_a_function_is_made_as_it_was_asked_for() -> None:
    memory = a_world(Memory())
    view, new = create(memory)
    assert new
    function = stored(memory)
    assert function.spec.handler is not None
    assert (function.spec.handler.source, function.spec.unit.memory) == (SOURCE, "256Mi")
    assert function.spec.retry == RetryPolicy(maxAttempts=3, backoffSeconds=(1,))
    assert (function.spec.queueLimit, function.spec.invocationTimeoutSeconds) == (10_000, 600)
    assert (view.phase, view.owner, view.operationID) == ("Pending", "alice", "fn-echo-001")


def test_the_same_request_again_is_the_same_function_and_another_one_a_conflict() -> None:
    memory = a_world(Memory())
    first, _ = create(memory)
    assert create(memory, unit={**SENT["unit"], "memory": "262144Ki"}) == (first, False)
    with pytest.raises(rest.OperationConflict):
        create(memory, maxWorkers=4)
    with pytest.raises(rest.AlreadyExists, match="function runtime-instance/echo exists"):
        create(memory, operationID="other")
    finish(Replica(memory).listen().functions.delete(None, "echo"))
    again, new = create(memory)
    assert (again.deleted, new) == (True, False)
    assert not memory.of_kind(GPU_FUNCTIONS)


def test_all_errors_of_a_request_are_told_at_once() -> None:
    broken = {**SENT, "unit": {"specName": "a", "image": "b"}, "handler": {"source": "def x("}, "minWorkers": 9}
    with pytest.raises(rest.InvalidRequest) as refused:
        parse(CreateGPUFunction, broken)
    assert {detail.field for detail in refused.value.details} == {"unit.image", "handler.source", "minWorkers"}


NAMES = {"a name that begins with a digit": "1st", "a long name": "a" * 41, "a name with a dot": "a.b", "none": ""}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_function_cannot_have(name: str) -> None:
    with pytest.raises(rest.InvalidRequest, match="name"):
        parse(CreateGPUFunction, {**SENT, "name": name})


def a_stored_function(**spec: Any) -> GPUFunction:
    return a_function("echo").spec(**spec).into(GPUFunction)


def change(**fields: Any) -> UpdateGPUFunction:
    return parse(UpdateGPUFunction, fields, partial=True)


def test_an_absent_field_is_kept_and_null_restores_the_default() -> None:
    before = a_stored_function(maxWorkers=7, idleTimeoutSeconds=5, retry={"maxAttempts": 9}, queueLimit=5)
    after = changed_spec(before, change(concurrency=3, idleTimeoutSeconds=None, retry=None, queueLimit=None))
    assert (after.maxWorkers, after.concurrency) == (7, 3)
    assert (after.idleTimeoutSeconds, after.retry, after.queueLimit) == (300, RetryPolicy(), 10_000)
    assert after.unit == before.spec.unit


def test_an_image_becomes_a_handler_and_a_handler_an_image() -> None:
    image = a_stored_function(unit={"specName": "a", "image": "b"})
    handler = changed_spec(image, change(unit={"specName": "a"}, handler={"source": SOURCE}))
    assert handler.unit.image is None
    back = changed_spec(replace(image, spec=handler), change(unit={"specName": "a", "image": "c"}, handler=None))
    assert (back.unit.image, back.handler) == ("c", None)


@mutant("service/functions/changes.py", "if found := list(function_errors(changed)):", "if found := []:")
def test_a_change_is_judged_with_what_it_keeps() -> None:
    function = a_stored_function(unit={"specName": "a", "image": "b"}, maxWorkers=2)
    for asked, field in (({"minWorkers": 3}, "minWorkers"), ({"handler": {"source": SOURCE}}, "unit.image")):
        with pytest.raises(rest.InvalidRequest) as refused:
            changed_spec(function, change(**asked))
        assert [detail.field for detail in refused.value.details] == [field]


def test_a_function_that_is_being_deleted_cannot_change() -> None:
    function = a_stored_function()
    ending = replace(function, metadata=replace(function.metadata, deletionTimestamp=datetime(2026, 1, 1, tzinfo=UTC)))
    with pytest.raises(rest.Clash, match="is being deleted"):
        changed_spec(ending, change(maxWorkers=4))


def test_every_field_of_the_spec_can_be_changed() -> None:
    assert UpdateGPUFunction.__struct_fields__ == a_stored_function().spec.__struct_fields__
    assert set(UpdateGPUFunction.__struct_defaults__) == {UNSET}


def test_lists_leave_the_source_out() -> None:
    function = a_stored_function(unit={"specName": "a"}, handler={"source": SOURCE, "entry": "main"})
    view = listed_function(function)
    assert view.handler is not None
    assert (view.handler.entry, view.handler.source) == ("main", "")


def deleting(memory: Memory, pending: Any = None, if_match: str = "") -> Process:
    replica = Replica(memory).listen()
    return Process("delete", lambda: replica.functions.delete(None, "echo", pending, if_match))


@pytest.mark.parametrize(("asked", "want"), [(None, "drain"), ("drain", "drain"), ("cancel", "cancel")])
@mutant(
    "service/functions/functions.py",
    "            marked = await self._mark(function, pending)\n",
    "            marked = function\n",
)
def test_what_happens_to_invocations_is_written_before_the_deletion(asked: Any, want: str) -> None:
    memory = a_world(Memory())
    create(memory)
    process = deleting(memory, asked)
    while process.next != "delete GPUFunction echo":
        process.step()
        assert not process.done, process.error
    assert stored(memory).metadata.annotations[PENDING_INVOCATIONS] == want


def test_a_second_deletion_may_cancel_and_never_takes_a_cancel_back() -> None:
    wishes: list[str] = []
    for asked in (None, "cancel", None):
        memory = a_world(Memory())
        create(memory)
        before = {PENDING_INVOCATIONS: "cancel"} if asked is None and wishes else {}
        finish(memory.patch(GPU_FUNCTIONS, stored(memory).metadata.key, {"metadata": {"annotations": before}}))
        process = deleting(memory, asked)
        while process.next != "delete GPUFunction echo":
            process.step()
        wishes.append(stored(memory).metadata.annotations[PENDING_INVOCATIONS])
    assert wishes == ["drain", "cancel", "cancel"]


def test_only_the_version_that_the_client_named_is_deleted() -> None:
    memory = a_world(Memory())
    view, _ = create(memory)
    finish(memory.patch(GPU_FUNCTIONS, stored(memory).metadata.key, {"metadata": {"annotations": {"a": "b"}}}))
    process = deleting(memory, if_match=view.resourceVersion)
    while not process.done:
        process.step()
    assert isinstance(process.error, rest.Clash)
    assert PENDING_INVOCATIONS not in stored(memory).metadata.annotations


@mutant("service/functions/functions.py", "            await self._executor.settle(function)\n", "")
def test_a_function_that_is_deleted_before_its_operation_was_finished_is_not_made_again() -> None:
    memory = a_world(Memory())
    replica = Replica(memory).listen()
    dies = Process("create", lambda: replica.functions.create(parse(CreateGPUFunction, SENT), SENT, "alice"))
    while not memory.of_kind(GPU_FUNCTIONS):
        dies.step()
    finish(Replica(memory).listen().functions.delete(None, "echo"))
    again, new = create(memory)
    assert (again.deleted, new) == (True, False)
    assert not memory.of_kind(GPU_FUNCTIONS)
    assert [record.status.phase for record in memory.of_kind(OPERATIONS)] == ["Succeeded"]
