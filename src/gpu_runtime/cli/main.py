"""`gpu-runtime`: every command by name, none of them imported before it is run. Each process is a command too."""

from __future__ import annotations

from importlib import import_module

import click

from gpu_runtime.cmd.processes import PROCESSES

COMMANDS = {
    "config": ("gpu_runtime.cli.config:config", "Show the settings of a process."),
    "down": ("gpu_runtime.cli.up:down_command", "Stop what `up` runs."),
    "env": ("gpu_runtime.cli.up:env_command", "Print shell variables for the cluster and API that `up` runs."),
    "files": ("gpu_runtime.cli.files:files", "Work on the files of a volume."),
    "local-cluster": ("gpu_runtime.cli.local_cluster:local_cluster", "Run the embedded cluster alone."),
    "manager": ("gpu_runtime.cli.processes:manager", "Removed: prints the commands to use instead."),
    "status": ("gpu_runtime.cli.up:status_command", "Show the processes that `up` runs."),
    "up": ("gpu_runtime.cli.up:up_command", "Run everything on this machine."),
}


class LazyGroup(click.Group):
    """Lists commands without importing them: `--help` and each command pay for nothing but themselves."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted({*COMMANDS, *PROCESSES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        command: click.Command
        if cmd_name in PROCESSES:
            command = import_module("gpu_runtime.cli.processes").process_command(PROCESSES[cmd_name])
            return command
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            summaries = {name: summary for name, (_, summary) in COMMANDS.items()}
            summaries |= {process.name: process.summary for process in PROCESSES.values()}
            formatter.write_dl([(name, summaries[name]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-runtime")
def main() -> None:
    """A GPU SaaS runtime: warm stock, running GPU instances and serverless functions on Kubernetes."""
