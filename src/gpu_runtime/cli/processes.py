"""Commands that run one process in the foreground."""

from __future__ import annotations

import signal
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import click

from gpu_runtime.cli.settings import EXIT_CONFIG, config_option, kubeconfig_option, settings_in_force
from gpu_runtime.cmd.process import Process

EXIT_CODES = "Ends with 0 after SIGTERM or Ctrl-C, and with 2 when an option or setting is wrong."


def process_command(process: Process) -> click.Command:
    """The command of a declared process."""

    def callback(path: Path | None, kubeconfig: Path | None = None) -> None:
        sys.exit(run(process, path, kubeconfig))

    options = (config_option, kubeconfig_option) if process.kubernetes else (config_option,)
    for option in reversed(options):
        callback = option(callback)
    return click.command(process.name, help=f"{process.summary}\n\n{EXIT_CODES}")(callback)


@click.command("manager", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def manager(arguments: tuple[str, ...]) -> None:  # noqa: ARG001  old arguments are accepted and ignored
    """The single process of earlier versions."""
    click.echo(
        "gpu-runtime manager is retired: API and reconcilers are two processes now. Run both:\n"
        "  gpu-runtime controller-manager --config config/local/controller-manager.yaml\n"
        "  gpu-runtime runtime-api --config config/local/runtime-api.yaml",
        err=True,
    )
    sys.exit(EXIT_CONFIG)


def run(process: Process, path: Path | None, kubeconfig: Path | None) -> int:
    """Runs the process with its settings; the exit code."""
    settings = settings_in_force(process, path)
    end_when_asked()
    main = process.load_main()
    code: int = import_module("gpu_runtime.kube.process").run_process(
        partial(main, settings),
        user_agent=f"gpu-runtime-{process.name}",
        log_level=settings.log.level,
        health=(settings.health.host, settings.health.port),
        kubeconfig=kubeconfig,
    )
    return code


def end_when_asked() -> None:
    """Until the process has its own handlers, SIGTERM and Ctrl-C end it with 0: nothing has begun.

    Loading takes seconds on a busy machine. The first process of a container would even ignore a SIGTERM that it has no
    handler for.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: sys.exit(0))
