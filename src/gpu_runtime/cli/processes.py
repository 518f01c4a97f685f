"""Commands that run one process in the foreground."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from gpu_runtime.cli.settings import EXIT_CONFIG, config_option, kubeconfig_option, settings_in_force
from gpu_runtime.config import PROCESSES


@click.command("controller-manager")
@config_option
@kubeconfig_option
def controller_manager(path: Path | None, kubeconfig: Path | None) -> None:
    """Run the reconcilers of StockPools and GPUUnits until a signal ends them."""
    sys.exit(run("controller-manager", path, kubeconfig))


@click.command("proxy")
@config_option
@kubeconfig_option
def proxy(path: Path | None, kubeconfig: Path | None) -> None:
    """Run the proxy to units until a signal ends it."""
    sys.exit(run("proxy", path, kubeconfig))


@click.command("runtime-api")
@config_option
@kubeconfig_option
def runtime_api(path: Path | None, kubeconfig: Path | None) -> None:
    """Run the REST API until a signal ends it."""
    sys.exit(run("runtime-api", path, kubeconfig))


@click.command("manager", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def manager(arguments: tuple[str, ...]) -> None:  # noqa: ARG001  those of old are taken and not used
    """The single process of old."""
    click.echo(
        "gpu-runtime manager is retired: API and reconcilers are two processes now. Run both:\n"
        "  gpu-runtime controller-manager --config config/local/controller-manager.yaml\n"
        "  gpu-runtime runtime-api --config config/local/runtime-api.yaml",
        err=True,
    )
    sys.exit(EXIT_CONFIG)


def run(name: str, path: Path | None, kubeconfig: Path | None) -> int:
    """Runs `gpu_runtime.cmd.<name>` with its settings; the exit code."""
    settings: Any = settings_in_force(PROCESSES[name], path)
    main = import_module(f"gpu_runtime.cmd.{name.replace('-', '_')}").main
    code: int = import_module("gpu_runtime.kube.process").run_process(
        partial(main, settings),
        user_agent=f"gpu-runtime-{name}",
        log_level=settings.log.level,
        health=(settings.health.host, settings.health.port),
        kubeconfig=kubeconfig,
    )
    return code
