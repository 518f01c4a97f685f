"""Records of operations: what their writes keep, and which record they are about."""

from __future__ import annotations

from equipment.mutation import mutant
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.service.cluster import OPERATIONS
from gpu_runtime.service.operations.records import UNFINISHED, NewOperation
from unit.service.exploration.driving import finish
from unit.service.exploration.memory import Memory
from unit.service.replica import Replica, a_world

ASK = NewOperation(
    "CreateGPUUnit", "a", "hash", {"name": "demo", "template": {"env": [{"name": "TOKEN", "value": "secret"}]}}
)


class World:
    def __init__(self) -> None:
        self.memory = a_world(Memory())
        self.operations = Replica(self.memory).operations

    def begin(self) -> Operation:
        record, new = finish(self.operations.begin(ASK))
        assert new
        return record


@mutant("service/operations/records.py", "replace(record, spec=replace(record.spec, request={}))", "record")
def test_a_committed_record_no_longer_holds_the_request_which_may_tell_secrets() -> None:
    world = World()
    done = finish(world.operations.succeed(world.begin()))
    assert done.spec.request == {}
    assert (done.spec.operationID, done.spec.requestHash) == ("a", "hash")
    assert UNFINISHED not in done.metadata.labels


@mutant(
    "service/operations/records.py",
    'in_view = {**record.metadata.labels, UNFINISHED: "true"}',
    "in_view = dict(record.metadata.labels)",
)
def test_a_failed_operation_that_begins_again_is_in_view_of_the_sweeper_with_its_request() -> None:
    world = World()
    failed = finish(world.operations.fail(world.begin(), "internal", "broken", settled=True))
    assert UNFINISHED not in failed.metadata.labels
    again = finish(world.operations.reopen(failed))
    assert again.metadata.labels[UNFINISHED] == "true"
    assert (again.status.phase, again.status.error, again.status.completionTime) == ("Pending", None, None)
    assert again.spec.request == ASK.request


@mutant("service/operations/records.py", "                resource_version=record.metadata.resourceVersion,\n", "")
def test_a_record_that_another_executor_committed_meanwhile_is_not_removed() -> None:
    world = World()
    known = world.begin()
    committed = finish(world.operations.succeed(known))
    assert not finish(world.operations.remove(known))
    assert world.memory.of_kind(OPERATIONS) == [committed]
    assert finish(world.operations.remove(committed))
    assert not finish(world.operations.remove(committed))
