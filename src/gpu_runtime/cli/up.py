"""`gpu-runtime up`, `down`, `status` and `env`: the whole product on this machine."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import click

from gpu_runtime.cli.cluster_options import gpus_option, show_option
from gpu_runtime.cli.settings import Misconfigured
from gpu_runtime.cmd.processes import PROCESSES
from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.errors import ConfigError

EXIT_NOT_RUNNING = 3
COLOURS = {"ready": "green", "not ready": "yellow", "dead": "red"}

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="GPU_RUNTIME_DATA_DIR",
    help="Data directory. Default: ~/.local/share/gpu-runtime.",
)


@click.command("up")
@data_dir_option
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Port of the REST API.")
@gpus_option
@click.option(
    "--config",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with settings to start from, one PROCESS.yaml each, such as runtime-api.yaml.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kubeconfig of an existing cluster to use instead of the embedded one.",
)
@show_option
def up_command(
    data_dir: Path | None,
    port: int,
    gpus: int | None,
    config: Path | None,
    kubeconfig: Path | None,
    shown: tuple[str, ...],
) -> None:
    """Run everything on this machine: a cluster, the controllers, the REST API and the proxy to units.

    Ends with 0 when it was stopped, 1 when a process could not be started, 2 when an option or setting is wrong, and
    3 when another `up` runs on the data directory.
    """
    from gpu_runtime.cmd.up.run import Options, up  # noqa: PLC0415  `status` and `env` need none of it

    try:
        sys.exit(up(Options(Layout.at(data_dir), port, gpus, config, kubeconfig, shown)))
    except ConfigError as error:
        raise Misconfigured(str(error)) from error


@click.command("down")
@data_dir_option
def down_command(data_dir: Path | None) -> None:
    """Stop everything that runs on a data directory; what was created stays."""
    from gpu_runtime.cmd.up.down import down  # noqa: PLC0415

    sys.exit(down(Layout.at(data_dir)))


@click.command("status")
@data_dir_option
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status_command(data_dir: Path | None, output: str) -> None:
    """Show each process: its state, process id, port, restarts and uptime.

    Ends with 0 when all are ready, 1 when one is not, and 3 when nothing runs.
    """
    from gpu_runtime.cmd.up.status import read_status, table  # noqa: PLC0415

    layout = Layout.at(data_dir)
    status = read_status(layout)
    rows = table(status)
    if output == "json":
        names = [name.lower() for name in rows[0]]
        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows[1:]], indent=2))
    elif status.processes:
        _print(rows)
    if not status.processes and status.supervisor is None:
        click.echo(f"nothing runs on {layout.root}; `gpu-runtime up` starts it", err=True)
        sys.exit(EXIT_NOT_RUNNING)
    if status.supervisor is None:
        click.echo("the supervisor is gone: `gpu-runtime up` adopts these processes, `down` stops them", err=True)
    sys.exit(0 if status.healthy else 1)


@click.command("env")
@data_dir_option
def env_command(data_dir: Path | None) -> None:
    """Print shell variables for the cluster and the API: eval "$(gpu-runtime env)"."""
    layout = Layout.at(data_dir)
    installation = layout.remembered()
    if installation is None:
        click.echo(f"{layout.root} was never started; run `gpu-runtime up` first", err=True)
        sys.exit(EXIT_NOT_RUNNING)
    variables = {"KUBECONFIG": installation.kubeconfig}
    for name, url in installation.ports.urls().items():
        if name in PROCESSES and (place := PROCESSES[name].up) is not None and place.variable:
            variables[place.variable] = url
    for variable, value in variables.items():
        click.echo(f"export {variable}={shlex.quote(value)}")


def _print(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        if number:
            cells[1] = click.style(cells[1], fg=COLOURS[row[1]])
        click.echo("  ".join(cells).rstrip())
