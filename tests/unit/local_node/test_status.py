"""Pod statuses, by what was seen of the pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import pytest

from gpu_runtime.local.kinds.container import Container
from gpu_runtime.local.kinds.pods import Pod, PodMeta, PodSpec, PodStatus, ReadinessGate, Waiting
from gpu_runtime.local.kinds.wire import Condition
from gpu_runtime.local.node.agent.status import Failure, Observed, merged, pod_status
from gpu_runtime.local.node.shim.shapes import ContainerState
from gpu_runtime.local.node.specs import ContainerRun, PodSandbox
from gpu_runtime.local.node.specs import PodSpec as SandboxSpec

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Policy = Literal["Always", "OnFailure", "Never"]


def running(name: str = "main", attempt: int = 0) -> ContainerRun:
    state: ContainerState = {
        "status": "running", "startedAt": 1000.0, "finishedAt": 0.0, "exitCode": -1, "signal": 0, "reason": "",
        "message": "",
    }  # fmt: skip
    return ContainerRun(name=name, attempt=attempt, state=state)


def ended(code: int, name: str = "main", attempt: int = 0) -> ContainerRun:
    state: ContainerState = {
        "status": "exited", "startedAt": 1000.0, "finishedAt": 1001.0, "exitCode": code, "signal": 0,
        "reason": "Error" if code else "Completed", "message": "",
    }  # fmt: skip
    return ContainerRun(name=name, attempt=attempt, state=state)


def a_pod(policy: Policy = "Always", inits: list[str] | None = None, **fields: object) -> Pod:
    return Pod(
        metadata=PodMeta(name="p", namespace="n", uid="u", generation=1),
        spec=PodSpec(
            containers=[Container(name="main", image="i")],
            initContainers=[Container(name=name) for name in inits or []],
            restartPolicy=policy,
            **fields,  # type: ignore[arg-type]
        ),
    )


def a_sandbox(*runs: ContainerRun, alive: bool = True) -> PodSandbox:
    spec = SandboxSpec(uid="u", namespace="n", name="p")
    return PodSandbox(spec=spec, alive=alive, createdAt=900.0, address="10.0.0.2", gpus={}, runs=list(runs))


@dataclass(frozen=True)
class Case:
    runs: list[ContainerRun] = field(default_factory=list)
    policy: Policy = "Always"
    inits: list[str] | None = None
    waiting: dict[str, Waiting] = field(default_factory=dict)
    ready: bool = False
    is_over: bool = False
    want: str = ""
    want_state: str = ""
    want_ready: str = "False"


BACKOFF = {"main": Waiting(reason="CrashLoopBackOff", message="back-off 10s")}
CASES = {
    "a new pod is pending": Case(want="Pending", want_state="ContainerCreating"),
    "one with init containers waits for them": Case(inits=["i"], want="Pending", want_state="PodInitializing"),
    "a finished init container alone is not running": Case(
        runs=[ended(0, "i")], inits=["i"], want="Pending", want_state="PodInitializing"
    ),
    "a running container is running": Case(runs=[running()], want="Running", want_state="running"),
    "a ready one makes the pod ready": Case(
        runs=[running()], ready=True, want="Running", want_state="running", want_ready="True"
    ),
    "success ends a pod that is never restarted": Case(
        runs=[ended(0)], policy="Never", want="Succeeded", want_state="Completed"
    ),
    "and one that is restarted on failure": Case(
        runs=[ended(0)], policy="OnFailure", want="Succeeded", want_state="Completed"
    ),
    "failure ends a pod that is never restarted": Case(
        runs=[ended(2)], policy="Never", want="Failed", want_state="Error"
    ),
    "failure does not end one that is restarted": Case(
        runs=[ended(2)], policy="OnFailure", want="Running", want_state="Error"
    ),
    "success does not end one that always runs": Case(runs=[ended(0)], want="Running", want_state="Completed"),
    "a crash loop is running, and says so": Case(
        runs=[ended(1, attempt=3)], waiting=BACKOFF, want="Running", want_state="CrashLoopBackOff"
    ),
    "a failed init container ends a pod that is never restarted": Case(
        runs=[ended(1, "i")], inits=["i"], policy="Never", want="Failed", want_state="PodInitializing"
    ),
    "a failed init container of another is tried again": Case(
        runs=[ended(1, "i")], inits=["i"], want="Pending", want_state="PodInitializing"
    ),
    "a deleted pod that ended well has succeeded": Case(
        runs=[ended(0)], is_over=True, want="Succeeded", want_state="Completed"
    ),
    "a deleted pod that was killed has failed": Case(
        runs=[ended(143)], is_over=True, want="Failed", want_state="Error"
    ),
    "a deleted pod that never ran is pending": Case(is_over=True, want="Pending", want_state="ContainerCreating"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_phase_and_state(case: Case) -> None:
    names = frozenset({"main"} if case.ready else ())
    observed = Observed(
        sandbox=a_sandbox(*case.runs), waiting=case.waiting, started=names, ready=names, ended=case.is_over
    )
    status = pod_status(a_pod(case.policy, case.inits), observed, host_ip="10.0.0.1", now=NOW)
    state = status.containerStatuses[0].state
    shown = (state.waiting or state.terminated or Waiting(reason="running")).reason
    ready = {condition.type: condition.status for condition in status.conditions}["Ready"]
    assert (status.phase, shown, ready) == (case.want, case.want_state, case.want_ready)


def test_a_status_is_equal_when_nothing_has_changed() -> None:
    pod = a_pod()
    observed = Observed(sandbox=a_sandbox(running()), started=frozenset({"main"}), ready=frozenset({"main"}))
    first = pod_status(pod, observed, host_ip="h", now=NOW)
    again = Pod(metadata=pod.metadata, spec=pod.spec, status=first)
    assert pod_status(again, observed, host_ip="h", now=NOW.replace(year=2030)) == first


def test_a_restarted_container_shows_its_last_end() -> None:
    observed = Observed(sandbox=a_sandbox(ended(3), running(attempt=1)))
    status = pod_status(a_pod(), observed, host_ip="h", now=NOW).containerStatuses[0]
    assert status.state.running
    assert status.lastState.terminated
    assert (status.lastState.terminated.exitCode, status.restartCount) == (3, 1)


def test_a_pod_that_the_node_gave_up_has_failed_for_that_reason() -> None:
    observed = Observed(sandbox=a_sandbox(ended(137), alive=False), failure=Failure("DeadlineExceeded", "too long"))
    status = pod_status(a_pod(), observed, host_ip="h", now=NOW)
    assert (status.phase, status.reason, status.message) == ("Failed", "DeadlineExceeded", "too long")


def test_a_readiness_gate_that_nobody_has_opened_keeps_the_pod_unready() -> None:
    pod = a_pod(readinessGates=[ReadinessGate(conditionType="example.com/gate")])
    observed = Observed(sandbox=a_sandbox(running()), started=frozenset({"main"}), ready=frozenset({"main"}))
    status = pod_status(pod, observed, host_ip="h", now=NOW)
    ready = next(condition for condition in status.conditions if condition.type == "Ready")
    assert (ready.status, ready.reason) == ("False", "ReadinessGatesNotReady")


def test_conditions_of_others_are_kept_and_times_move_with_the_status_alone() -> None:
    earlier = NOW.replace(year=2020)
    old = [
        Condition(type="Ready", status="True", lastTransitionTime=earlier),
        Condition(type="Theirs", status="False", reason="Because", lastTransitionTime=earlier),
    ]
    same = merged(old, [Condition(type="Ready", status="True", reason="New")], NOW, 1)
    assert [(each.type, each.lastTransitionTime) for each in same] == [("Ready", earlier), ("Theirs", earlier)]
    other = merged(old, [Condition(type="Ready", status="False")], NOW, 1)
    assert other[0].lastTransitionTime == NOW


def test_a_terminal_phase_never_changes() -> None:
    pod = a_pod("Never")
    over = Pod(metadata=pod.metadata, spec=pod.spec, status=PodStatus(phase="Failed"))
    assert pod_status(over, Observed(sandbox=a_sandbox(ended(0))), host_ip="h", now=NOW).phase == "Failed"
