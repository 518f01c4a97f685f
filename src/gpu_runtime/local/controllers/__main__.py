"""The controllers' process: everything of the cluster that is neither API server nor node."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import uvloop

from gpu_runtime import logs
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.config import load_config
from gpu_runtime.kube.errors import ConfigError
from gpu_runtime.kube.process import EXIT_CONFIG, stop_on_signal
from gpu_runtime.local.controllers.assembly import Workloads


async def _main(kubeconfig: Path, data_dir: Path) -> None:
    async with Client(load_config(kubeconfig), user_agent="local-controllers") as client:
        with stop_on_signal() as stop:
            await Workloads(client, data_dir).run(stop)


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu_runtime.local.controllers", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the cluster to work on")
    parser.add_argument("--data-dir", type=Path, required=True, help="where the folders of volumes are made")
    given = parser.parse_args()
    logs.configure("info")
    try:
        uvloop.run(_main(given.kubeconfig, given.data_dir.absolute()))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  before there is anything to log to
        return EXIT_CONFIG
    return 0


if __name__ == "__main__":
    sys.exit(main())
