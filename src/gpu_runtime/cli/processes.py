"""Commands that run one process in the foreground."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click

from gpu_runtime.cli.settings import EXIT_CONFIG, Misconfigured, config_option, kubeconfig_option, settings_in_force
from gpu_runtime.config import PROCESSES, ConfigError
from gpu_runtime.kube.errors import ConfigError as ClusterConfigError


@click.command("controller-manager")
@config_option
@kubeconfig_option
def controller_manager(path: Path | None, kubeconfig: Path | None) -> None:
    """Run the reconcilers of StockPools and GPUUnits until a signal ends them."""
    sys.exit(run_process("controller-manager", path, kubeconfig))


@click.command("proxy")
@config_option
@kubeconfig_option
def proxy(path: Path | None, kubeconfig: Path | None) -> None:
    """Run the proxy to units until a signal ends it."""
    sys.exit(run_process("proxy", path, kubeconfig))


@click.command("runtime-api")
@config_option
@kubeconfig_option
def runtime_api(path: Path | None, kubeconfig: Path | None) -> None:
    """Run the REST API until a signal ends it."""
    sys.exit(run_process("runtime-api", path, kubeconfig))


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


def run_process(name: str, path: Path | None, kubeconfig: Path | None) -> int:
    """Runs `gpu_runtime.cmd.<name>` with its settings; a configuration that cannot work is one line and exit code 2."""
    settings = settings_in_force(PROCESSES[name], path)
    module = import_module(f"gpu_runtime.cmd.{name.replace('-', '_')}")
    import_module("gpu_runtime.kube.process").raise_open_files_limit()
    try:
        code: int = module.run(settings, kubeconfig)
    except (ConfigError, ClusterConfigError, ExceptionGroup) as error:
        cause = _alone(error)
        if not isinstance(cause, ConfigError | ClusterConfigError):
            raise  # a defect, with its whole trace
        raise Misconfigured(str(cause)) from error
    return code


def _alone(error: Exception) -> Exception:
    """The one error in groups of one: a task group wraps what its body raises."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
