"""`gpu-runtime local-cluster`: the embedded cluster alone, without the product on it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpu_runtime.cli.cluster_options import gpus_option, show_option


@click.command("local-cluster")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Data directory of the cluster; its kubeconfig is D/kubeconfig.",
)
@gpus_option
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server; 0 selects a free port.")
@click.option(
    "--missing-image",
    "missing_images",
    multiple=True,
    metavar="GLOB",
    help="Images to report as missing, to try out failed image pulls.",
)
@show_option
def local_cluster(
    data_dir: Path, gpus: int | None, port: int, missing_images: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    """Run a Kubernetes-compatible cluster on this machine until a signal ends it.

    Ends with 0 when it was stopped, 1 when it could not be started, and 3 when another one runs on the data directory.
    """
    from gpu_runtime.cmd.local_cluster import run  # noqa: PLC0415  `--help` needs none of it

    sys.exit(run(data_dir, gpus, port, missing_images, shown))
