"""The node agent as a child of the cluster. Killed, it leaves its pods running; ended in order, it ends them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import uvloop

from gpu_runtime import logs
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.process import stop_on_signal
from gpu_runtime.local.node import capabilities
from gpu_runtime.local.node.agent.agent import NodeOptions, node_agent
from gpu_runtime.local.node.gpus import Gpu, discover, simulated
from gpu_runtime.local.node.hidden import ShownFolder
from gpu_runtime.local.node.network import NoSubnet
from gpu_runtime.local.node.runtime import AlreadyRunning, PodRuntime
from gpu_runtime.supervisor.child import READY, wait_for_begin

DEFAULT_SIMULATED = 8
STOP_SECONDS = 10.0


def choose_gpus(found: list[Gpu], wanted: int | None) -> tuple[list[Gpu], bool, str]:
    """The node's GPUs, whether they are simulated, and a line that says so."""
    if found:
        kept = found if wanted is None else found[:wanted]
        return kept, False, f"GPUs: {len(kept)} of {len(found)}, {found[0].name}"
    count = DEFAULT_SIMULATED if wanted is None else wanted
    if not count:
        return [], False, "GPUs: none"
    return (
        simulated(count),
        True,
        f"GPUs: {count} simulated, with 64Gi of simulated memory each (no NVIDIA driver found)",
    )


async def _main(given: argparse.Namespace) -> None:
    gpus, are_simulated, about = choose_gpus(discover(), given.gpus)
    given.data_dir.mkdir(parents=True, exist_ok=True)
    able = capabilities.decide(capabilities.probe(given.data_dir))
    options = NodeOptions(name=given.name, simulated=are_simulated, missing_images=given.missing_image)
    with stop_on_signal() as stop:
        await wait_for_begin()
        for line in (f"node {given.name}", *able.describe(), about):
            _print(line)
        async with (
            Client(load_config(given.kubeconfig), user_agent="local-node") as client,
            PodRuntime(given.data_dir, able, gpus=gpus, shown=given.show) as runtime,
        ):
            async with node_agent(client, runtime, options):
                _print(READY)
                await stop.wait()
            await runtime.shutdown(STOP_SECONDS)


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201  the parent reads it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--missing-image", action="append", default=[])
    parser.add_argument("--show", type=ShownFolder.parse, action="append", default=[])
    given = parser.parse_args()
    logs.configure("info")
    try:
        uvloop.run(_main(given))
    except (AlreadyRunning, NoSubnet, OSError) as error:
        print(f"error: the node cannot run: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
