"""`gpu-runtime config`."""

from __future__ import annotations

from pathlib import Path

import click

from gpu_runtime.cli.settings import config_option, settings_in_force
from gpu_runtime.cmd.processes import PROCESSES
from gpu_runtime.config import show


class ProcessName(click.ParamType[str]):
    """The name of a declared process."""

    name = "process"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._choice().get_metavar(param, ctx)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return self._choice().convert(value, param, ctx)

    def _choice(self) -> click.Choice[str]:
        return click.Choice(sorted(PROCESSES))


@click.group()
def config() -> None:
    """Show the settings of a process."""


@config.command("show")
@click.argument("process", type=ProcessName())
@config_option
def show_command(process: str, path: Path | None) -> None:
    """Print the effective settings: defaults, file and environment."""
    click.echo(show(settings_in_force(PROCESSES[process], path)), nl=False)
