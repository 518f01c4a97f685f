"""`gpu-runtime files`: what the pods of a storage run on its volume."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from gpu_runtime.cli.processes import end_when_asked


@click.group()
def files() -> None:
    """Work on the files of a volume."""


def _prefix(_: click.Context, __: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", value):
        raise click.BadParameter("begins with a slash and does not end with one, such as /storages/default/data")
    return value


@files.command("serve")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; empty for all addresses.")
@click.option("--port", type=click.IntRange(0, 65535), default=5000, show_default=True)
@click.option("--prefix", default="", callback=_prefix, help="Beginning of every path, such as /storages/default/data.")
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0, 600),
    default=5.0,
    show_default=True,
    help="How long requests may take to end after SIGTERM.",
)
def serve_command(folder: Path, host: str, port: int, prefix: str, drain_seconds: float) -> None:
    """Serve the files below FOLDER over HTTP, for reading only.

    Lists folders as HTML and JSON, sends files with ranges and folders as tar. No link leads out of FOLDER. /healthz
    answers when the server runs. Ends with 0 after SIGTERM or Ctrl-C, and with 2 when an option is wrong.
    """
    end_when_asked()
    from gpu_runtime.files.serving import ServeOptions, serve  # noqa: PLC0415  `--help` needs none of it
    from gpu_runtime.kube.process import ProcessContext, run_process  # noqa: PLC0415

    options = ServeOptions(folder, host, port, prefix, drain_seconds)

    async def main(process: ProcessContext) -> None:
        await serve(options, process.stop)

    sys.exit(run_process(main))
