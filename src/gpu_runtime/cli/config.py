"""`gpu-runtime config`."""

from __future__ import annotations

from pathlib import Path

import click

from gpu_runtime.cli.settings import config_option, settings_in_force
from gpu_runtime.config import PROCESSES, show


@click.group()
def config() -> None:
    """Show the settings of a process."""


@config.command("show")
@click.argument("process", type=click.Choice(sorted(PROCESSES)))
@config_option
def show_command(process: str, path: Path | None) -> None:
    """Print the settings that are in force: defaults, file and environment."""
    click.echo(show(settings_in_force(PROCESSES[process], path)), nl=False)
