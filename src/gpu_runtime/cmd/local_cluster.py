"""`gpu-runtime local-cluster`: runs the embedded cluster until a signal."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from functools import partial
from pathlib import Path

from gpu_runtime.kube.process import ProcessContext, run_process
from gpu_runtime.local.apiserver.errors import StartError
from gpu_runtime.local.cluster.cluster import ClusterOptions, RunningCluster, local_cluster
from gpu_runtime.local.node.hidden import ShownFolder
from gpu_runtime.supervisor.holder import Held

EXIT_FAILED = 1
EXIT_HELD = 3


def run(
    data_dir: Path, gpus: int | None, port: int, missing_images: tuple[str, ...], shown: tuple[str, ...] = ()
) -> int:
    """Runs until SIGTERM or SIGINT, then stops all pods and leaves no process. Returns the exit code."""
    try:
        folders = tuple(str(ShownFolder.parse(each)) for each in shown)
    except ValueError as error:
        _complain(f"--show: {error}")
        return EXIT_FAILED
    options = ClusterOptions(data_dir.expanduser().absolute(), gpus, port, missing_images, folders)
    try:
        return run_process(partial(_main, options))
    except Held as held:
        _complain(f"{options.data_dir} is in use by another local-cluster: {held}")
        return EXIT_HELD
    except (StartError, OSError, sqlite3.Error) as error:
        _complain(str(error))
        return EXIT_FAILED
    except BaseExceptionGroup as group:
        failure = _first(group, (StartError, OSError, sqlite3.Error))
        if failure is None:
            raise
        _complain(str(failure))
        return EXIT_FAILED


async def _main(options: ClusterOptions, process: ProcessContext) -> None:
    async with local_cluster(options, _say) as cluster, asyncio.TaskGroup() as group:
        printing = group.create_task(_print_when_ready(cluster))
        await process.stop.wait()
        printing.cancel()
        _say("stopping: waiting for the pods to end")


async def _print_when_ready(cluster: RunningCluster) -> None:
    await cluster.until_ready()
    _say(f"ready: export KUBECONFIG={cluster.kubeconfig}")


def _first(group: BaseExceptionGroup[BaseException], kinds: tuple[type[Exception], ...]) -> BaseException | None:
    found = group.subgroup(kinds)
    while found is not None and isinstance(found.exceptions[0], BaseExceptionGroup):
        found = found.exceptions[0]
    return found.exceptions[0] if found is not None else None


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  the user reads it in the terminal


def _complain(problem: str) -> None:
    print(f"error: {problem}", file=sys.stderr)  # noqa: T201
