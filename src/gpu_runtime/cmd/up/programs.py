"""The programs that `up` supervises, and their start order."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path

from gpu_runtime.cmd.process import Process
from gpu_runtime.cmd.up.broker import BROKER
from gpu_runtime.cmd.up.layout import LOOPBACK, Layout, Ports, kubernetes_url
from gpu_runtime.supervisor.program import Program

CLUSTER = "local-cluster"
CLUSTER_BEGINS, CLUSTER_IS_READY = "kubernetes API on ", "ready: "  # its first and last line at a start
CLUSTER_STOP_SECONDS = 60.0  # includes the grace period of the pods
COMMAND = (sys.executable, "-m", "gpu_runtime.cli")


def cluster(
    layout: Layout,
    ports: Ports,
    gpus: int | None,
    shown: tuple[str, ...],
    prepare: Callable[[], Awaitable[None]],
    *,
    own_broker: bool = True,
) -> Program:
    """The embedded cluster. Processes that depend on it start when its API answers and `prepare` is done."""
    wanted = ("--gpus", str(gpus)) if gpus is not None else ()
    folders = tuple(part for folder in shown for part in ("--show", folder))
    return Program(
        name=CLUSTER,
        command=(*COMMAND, CLUSTER, "--data-dir", str(layout.root), "--port", str(ports.kubernetes), *wanted, *folders),
        health=f"{kubernetes_url(ports)}/readyz",
        serves=f"{kubernetes_url(ports)}/livez",
        after=(BROKER,)
        if own_broker
        else (),  # stopped before the broker: workers finish and acknowledge their invocations
        prepare=prepare,
        environment=_version(),
        address=kubernetes_url(ports),
        stop_seconds=CLUSTER_STOP_SECONDS,
    )


def what_the_machine_allows(log: Path) -> list[str]:
    """What the embedded cluster logged at its last start about namespaces, network and GPUs."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    starts = [number for number, line in enumerate(lines) if line.startswith(CLUSTER_BEGINS)]
    said = lines[starts[-1] + 1 :] if starts else []
    return [line for line in takewhile(lambda line: not line.startswith(CLUSTER_IS_READY), said) if line[:1] != "{"]


def product(
    processes: Iterable[Process],
    settings: Mapping[str, Path],
    kubeconfig: Path,
    ports: Ports,
    *,
    own_cluster: bool,
    own_broker: bool = True,
) -> list[Program]:
    """The processes of the product. They wait for the embedded cluster and the broker, if `up` runs them."""

    def after(process: Process) -> tuple[str, ...]:
        cluster = (CLUSTER,) if process.kubernetes and own_cluster else ()
        return (*cluster, *((BROKER,) if process.broker and own_broker else ()))

    return [_program(each, settings[each.name], kubeconfig, ports, after(each)) for each in processes]


def _program(process: Process, settings: Path, kubeconfig: Path, ports: Ports, after: tuple[str, ...]) -> Program:
    cluster_option = ("--kubeconfig", str(kubeconfig)) if process.kubernetes else ()
    return Program(
        name=process.name,
        command=(*COMMAND, process.name, "--config", str(settings), *cluster_option),
        health=f"http://{LOOPBACK}:{ports.health[process.name]}/readyz",
        after=(*after, *(process.up.after if process.up is not None else ())),
        files=(settings,),
        environment=_version(),
        address=ports.urls().get(process.name, ""),
    )


def _version() -> dict[str, str]:
    """The version, as part of the program's digest: `up` must not adopt a process of another version."""
    return {"GPU_RUNTIME_VERSION": version("gpu-runtime")}
