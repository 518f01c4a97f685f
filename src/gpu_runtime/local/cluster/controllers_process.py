"""The controllers and the scheduler as a child of the cluster."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import uvloop

from gpu_runtime import logs
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.process import stop_on_signal
from gpu_runtime.local.controllers.assembly import Workloads
from gpu_runtime.supervisor.child import READY, wait_for_begin


async def _main(kubeconfig: Path, data_dir: Path) -> None:
    with stop_on_signal() as stop:
        await wait_for_begin()
        async with Client(load_config(kubeconfig), user_agent="local-controllers") as client:
            workloads = Workloads(client, data_dir)
            async with asyncio.TaskGroup() as group:
                printing = group.create_task(_print_when_ready(workloads))
                await workloads.run(stop)
                printing.cancel()


async def _print_when_ready(workloads: Workloads) -> None:
    await workloads.manager.leading.wait()
    print(READY, flush=True)  # noqa: T201  the parent reads it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    given = parser.parse_args()
    logs.configure("info")
    uvloop.run(_main(given.kubeconfig, given.data_dir))
    return 0


if __name__ == "__main__":
    sys.exit(main())
