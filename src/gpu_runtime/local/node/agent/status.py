"""Computes a Pod's status from what was observed, as a kubelet does. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from gpu_runtime.local.kinds.container import Container
from gpu_runtime.local.kinds.pods import Address, ContainerStatus, Pod, PodStatus, Running, State, Terminated, Waiting
from gpu_runtime.local.kinds.wire import Condition
from gpu_runtime.local.node.specs import ContainerRun, PodSandbox

TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Failure:
    """Why the node failed a whole pod."""

    reason: str
    message: str


@dataclass(frozen=True)
class Observed:
    """Everything that a status is computed from. `started` and `ready` are probe results of running containers."""

    sandbox: PodSandbox | None = None
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    started: frozenset[str] = frozenset()
    ready: frozenset[str] = frozenset()
    failure: Failure | None = None
    ended: bool = False
    """No container runs or will run again, whatever the restart policy says."""


def should_restart(pod: Pod, container: Container, code: int) -> bool:
    """Whether a container that ended with `code` is to run again."""
    if container.sidecar:
        return True
    if container in pod.spec.initContainers and code == 0:
        return False
    return pod.spec.restartPolicy == "Always" or (pod.spec.restartPolicy == "OnFailure" and code != 0)


def container_id(uid: str, run: ContainerRun) -> str:
    digest = hashlib.sha256(f"{uid}/{run.name}/{run.attempt}".encode()).hexdigest()
    return f"gpu-runtime://{digest}"


def pod_status(pod: Pod, observed: Observed, *, host_ip: str, now: datetime) -> PodStatus:
    """The status to report; equal to the old one when nothing has changed."""
    old = pod.status
    inits = [_container(pod, each, observed) for each in pod.spec.initContainers]
    containers = [_container(pod, each, observed) for each in sorted(pod.spec.containers, key=lambda each: each.name)]
    phase = _phase(pod, inits, containers, observed)
    ip = observed.sandbox.address if observed.sandbox else old.podIP
    alive = observed.sandbox is not None and observed.sandbox.alive
    if ip and pod.spec.hostNetwork:
        ip = host_ip
    return PodStatus(
        phase=phase,
        reason=observed.failure.reason if observed.failure else "",
        message=observed.failure.message if observed.failure else "",
        hostIP=host_ip,
        hostIPs=[Address(ip=host_ip)],
        podIP=ip,
        podIPs=[Address(ip=ip)] if ip else [],
        startTime=old.startTime or now.replace(microsecond=0),
        conditions=_conditions(pod, alive, phase, inits, containers, now),
        initContainerStatuses=inits,
        containerStatuses=containers,
        observedGeneration=pod.metadata.generation,
    )


def _container(pod: Pod, container: Container, observed: Observed) -> ContainerStatus:
    reported = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    old = next((each for each in reported if each.name == container.name), None)
    every_run = observed.sandbox.runs if observed.sandbox else []
    runs = sorted((run for run in every_run if run.name == container.name), key=_newest)
    waiting = observed.waiting.get(container.name)
    if not runs:
        if old is not None and (old.state.terminated or observed.ended):
            return old
        creating = Waiting(reason="PodInitializing" if pod.spec.initContainers else "ContainerCreating")
        return ContainerStatus(
            name=container.name, image=container.image, state=State(waiting=waiting or creating), started=False
        )
    latest = runs[0]
    state = _state(pod, latest)
    last = _state(pod, runs[1]) if len(runs) > 1 else (old.lastState if old else State())
    ended = state.terminated
    if waiting and not observed.ended and (ended is None or should_restart(pod, container, ended.exitCode)):
        last = state if ended else last
        state = State(waiting=waiting)
    running = state.running is not None
    completed = container in pod.spec.initContainers and ended is not None and ended.exitCode == 0
    return ContainerStatus(
        name=container.name,
        image=container.image,
        imageID=f"machine:{container.image}",
        containerID=container_id(pod.metadata.uid, latest),
        state=state,
        lastState=last,
        restartCount=latest.attempt,
        ready=(running and container.name in observed.ready) or (completed and not container.sidecar),
        started=running and container.name in observed.started,
    )


def _newest(run: ContainerRun) -> int:
    return -run.attempt


def _state(pod: Pod, run: ContainerRun) -> State:
    state = run.state
    if state is None:
        return State(waiting=Waiting(reason="ContainerCreating"))
    if state["status"] == "running":
        return State(running=Running(startedAt=_time(state["startedAt"])))
    return State(
        terminated=Terminated(
            exitCode=state["exitCode"],
            reason=state["reason"],
            message=state["message"],
            startedAt=_time(state["startedAt"]),
            finishedAt=_time(state["finishedAt"]),
            containerID=container_id(pod.metadata.uid, run),
        )
    )


def _time(seconds: float) -> datetime:
    """API times have whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC)


def _phase(pod: Pod, inits: list[ContainerStatus], containers: list[ContainerStatus], observed: Observed) -> str:
    if observed.failure:
        return "Failed"
    if pod.status.phase in TERMINAL:
        return pod.status.phase
    regular = [(each, status) for each, status in zip(pod.spec.initContainers, inits, strict=True) if not each.sidecar]
    for container, status in regular:
        ended = status.state.terminated or status.lastState.terminated
        if (
            status.state.running is None
            and ended
            and ended.exitCode
            and not should_restart(pod, container, ended.exitCode)
        ):
            return "Failed"
    stopped = [_ended(status) for status in containers]
    if all(stopped) and (observed.ended or not any(_again(pod, status) for status in containers)):
        return "Succeeded" if all(ended is not None and ended.exitCode == 0 for ended in stopped) else "Failed"
    initialized = all(_initialized(container, status) for container, status in regular)
    if observed.ended:
        return "Failed" if any(stopped) else "Pending"
    if not initialized or any(status.state.waiting and not status.lastState.terminated for status in containers):
        return "Pending"
    return "Running"


def _ended(status: ContainerStatus) -> Terminated | None:
    return status.state.terminated or (status.lastState.terminated if status.state.waiting else None)


def _again(pod: Pod, status: ContainerStatus) -> bool:
    container = next(each for each in pod.spec.containers if each.name == status.name)
    ended = _ended(status)
    return ended is None or should_restart(pod, container, ended.exitCode)


def _initialized(container: Container, status: ContainerStatus) -> bool:
    return status.started is True if container.sidecar else status.ready


def _conditions(
    pod: Pod, alive: bool, phase: str, inits: list[ContainerStatus], containers: list[ContainerStatus], now: datetime
) -> list[Condition]:
    containers_ready = _containers_ready(pod, phase, inits, containers)
    wanted = [
        Condition(type="PodReadyToStartContainers", status="True" if alive else "False"),
        _initialized_condition(pod, phase, inits, containers),
        _ready(pod, containers_ready),
        containers_ready,
    ]
    if not any(condition.type == "PodScheduled" for condition in pod.status.conditions):
        wanted.append(Condition(type="PodScheduled", status="True"))  # bound by hand, past the scheduler
    return merged(pod.status.conditions, wanted, now, pod.metadata.generation)


def merged(old: Iterable[Condition], wanted: Iterable[Condition], now: datetime, generation: int) -> list[Condition]:
    """The node's conditions in place of its old ones, those of others untouched; times move with the status alone."""
    before = {condition.type: condition for condition in old}
    ours = []
    for condition in wanted:
        previous = before.pop(condition.type, None)
        same = previous is not None and previous.status == condition.status and previous.lastTransitionTime
        ours.append(
            msgspec.structs.replace(
                condition,
                lastTransitionTime=previous.lastTransitionTime if same and previous else now.replace(microsecond=0),
                observedGeneration=generation,
            )
        )
    return [*ours, *before.values()]


def _listed(names: Iterable[str]) -> str:
    return "[" + " ".join(names) + "]"


def _containers_ready(
    pod: Pod, phase: str, inits: list[ContainerStatus], containers: list[ContainerStatus]
) -> Condition:
    if phase in TERMINAL:
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        return Condition(type="ContainersReady", status="False", reason=reason)
    sidecars = [status for each, status in zip(pod.spec.initContainers, inits, strict=True) if each.sidecar]
    order = {each.name: number for number, each in enumerate(pod.spec.containers)}
    unready = [status.name for status in sidecars if not status.ready]
    unready += sorted((status.name for status in containers if not status.ready), key=lambda name: order[name])
    if unready:
        message = f"containers with unready status: {_listed(unready)}"
        return Condition(type="ContainersReady", status="False", reason="ContainersNotReady", message=message)
    return Condition(type="ContainersReady", status="True")


def _ready(pod: Pod, containers_ready: Condition) -> Condition:
    if containers_ready.status != "True":
        return msgspec.structs.replace(containers_ready, type="Ready")
    known = {condition.type: condition.status for condition in pod.status.conditions}
    problems = []
    for gate in pod.spec.gates:
        if gate not in known:
            problems.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif known[gate] != "True":
            problems.append(f'the status of pod readiness gate "{gate}" is not "True", but {known[gate]}')
    if problems:
        message = ", ".join(problems)
        return Condition(type="Ready", status="False", reason="ReadinessGatesNotReady", message=message)
    return Condition(type="Ready", status="True")


def _initialized_condition(
    pod: Pod, phase: str, inits: list[ContainerStatus], containers: list[ContainerStatus]
) -> Condition:
    if phase == "Succeeded":
        return Condition(type="Initialized", status="True", reason="PodCompleted")
    begun = any(status.state.running or _ended(status) for status in containers)
    incomplete = [
        each.name for each, status in zip(pod.spec.initContainers, inits, strict=True) if not _initialized(each, status)
    ]
    if begun or not incomplete:
        return Condition(type="Initialized", status="True")
    message = f"containers with incomplete status: {_listed(incomplete)}"
    return Condition(type="Initialized", status="False", reason="ContainersNotInitialized", message=message)
