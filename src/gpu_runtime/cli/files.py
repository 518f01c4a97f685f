"""`gpu-runtime files`: the commands that the pods of a storage run on its volume."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from gpu_runtime.cli.processes import end_when_asked
from gpu_runtime.files.clearing import clear
from gpu_runtime.files.copying import copy_tree
from gpu_runtime.files.failure import FilesError
from gpu_runtime.files.reporting import Reporter


@click.group()
def files() -> None:
    """Work on the files of a volume."""


def _prefix(_: click.Context, __: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", value):
        raise click.BadParameter("must begin with a slash and not end with one, such as /storages/default/data")
    return value


@files.command("serve")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; empty for all addresses.")
@click.option("--port", type=click.IntRange(0, 65535), default=5000, show_default=True)
@click.option(
    "--prefix",
    default="",
    callback=_prefix,
    help="Path below which the files are served, such as /storages/default/data.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0, 600),
    default=5.0,
    show_default=True,
    help="How long requests may take to end after SIGTERM.",
)
def serve_command(folder: Path, host: str, port: int, prefix: str, drain_seconds: float) -> None:
    """Serve the files below FOLDER over HTTP, for reading only.

    Lists folders as HTML and JSON, sends files with ranges and folders as tar. Links that lead out of FOLDER are
    refused. /healthz answers when the server runs. Exits with 0 after SIGTERM or Ctrl-C, and with 2 when an option is
    wrong.
    """
    end_when_asked()
    from gpu_runtime.files.serving import ServeOptions, serve  # noqa: PLC0415  `--help` needs none of it
    from gpu_runtime.kube.process import ProcessContext, run_process  # noqa: PLC0415

    options = ServeOptions(folder, host, port, prefix, drain_seconds)

    async def main(process: ProcessContext) -> None:
        await serve(options, process.stop)

    sys.exit(run_process(main))


@files.command("copy")
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
@click.option("--clear", "clear_first", is_flag=True, help="Empty TARGET first. Without it, TARGET must be empty.")
def copy_command(source: str, target: str, clear_first: bool) -> None:
    """Copy everything in the folder SOURCE into the folder TARGET.

    Keeps links, permissions, owners, times, extended attributes and holes in files. Skips sockets and devices. The last
    line of the output begins with "done" when the whole copy has reached the disk.
    """
    try:
        copy_tree(source, target, clear=clear_first, reporter=Reporter(click.echo))
    except FilesError as error:
        raise click.ClickException(str(error)) from error


@files.command("clear")
@click.argument("folder", type=click.Path())
def clear_command(folder: str) -> None:
    """Remove everything in FOLDER except lost+found. FOLDER itself stays."""
    try:
        removed = clear(folder)
    except FilesError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"removed {removed} files and folders")
