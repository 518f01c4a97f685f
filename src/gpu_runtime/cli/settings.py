"""Settings for a command, or one line that says what is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gpu_runtime.cmd.process import Process
from gpu_runtime.errors import ConfigError

EXIT_CONFIG = 2

config_option = click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML file with the settings of the process. Default: built-in settings.",
)
kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Kubeconfig of the cluster. Default: $KUBECONFIG, the cluster of this Pod, or ~/.kube/config.",
)


def settings_in_force(process: Process, path: Path | None) -> Any:
    """From the file and the environment; ends the command when they are wrong."""
    try:
        return process.load_settings(path, os.environ)
    except ConfigError as error:
        raise Misconfigured(str(error)) from error


class Misconfigured(click.ClickException):
    """Ends the command with one line that says what is wrong and how to fix it."""

    exit_code = EXIT_CONFIG
