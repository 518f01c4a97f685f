"""The terminal output of `gpu-runtime up`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click

from gpu_runtime.cmd.processes import PROCESSES, RUNTIME_API
from gpu_runtime.cmd.up.layout import Layout, Ports
from gpu_runtime.supervisor.events import Died, Ended, Event, Ready, StartFailed, Unready

WIDTH = 20
FIRST = '{"operationID":"first-stock","specName":"g1.1","memory":"16Gi","gpu":1,"replicas":2}'


def say(line: str = "") -> None:
    """Prints one line, with colours only on a terminal. Ignores a closed stdout."""
    with suppress(OSError):
        click.echo(line)


def print_event(event: Event) -> None:
    name = click.style(f"{event.name:<{WIDTH}}", bold=True)
    if isinstance(event, Ready):
        how = "adopted" if event.adopted else f"ready in {event.seconds:.1f} s"
        again = f" (restart {event.restarts})" if event.restarts else ""
        say(
            f"  {click.style('✓', fg='green')} {name} {how + again:<18} {click.style(event.address, dim=True)}".rstrip()
        )
    elif isinstance(event, Died):
        how = f"hung: killed after {event.silent:.0f} s without an answer" if event.silent else f"died: {event.how}"
        say(f"  {click.style('✗', fg='red')} {name} {how}; starting it again in {event.again_in:.1f} s")
    elif isinstance(event, Unready):
        how = f"not ready for {event.seconds:.0f} s: {event.problem}"
        say(f"  {click.style('✗', fg='red')} {name} {how}; stopping it")
    else:
        say(f"  {click.style('-', dim=True)} {name} {_ended(event)}")


def _ended(event: Ended) -> str:
    what = "left by an earlier run: " if event.leftover else ""
    if event.killed:
        return what + click.style(f"killed: it did not end within {event.seconds:.0f} s", fg="yellow")
    return f"{what}stopped in {event.seconds:.1f} s"


def welcome(layout: Layout, ports: Ports, kubeconfig: Path, machine: Iterable[str] = ()) -> None:
    """Prints what this machine supports, the URLs of the product, and first commands to paste."""
    urls = ports.urls()
    api = urls[RUNTIME_API.name]
    pages = [
        (title, urls[process.name] + path)
        for process in PROCESSES.values()
        if process.up is not None
        for title, path in process.up.pages.items()
    ]
    say()
    for line in machine:
        say(click.style(f"  {line}", dim=True))
    say()
    for what, where in (*pages, ("Logs", str(layout.supervised.root / "logs"))):
        say(f"  {what:<8} {click.style(where, fg='cyan')}")
    say()
    say(f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}")
    say()
    say("  Create two stock units with one GPU each, then list the inventory:")
    say(f"  curl -s -X POST {api}/api/v1/operator/stock-units -H 'Content-Type: application/json' -d '{FIRST}'")
    say(f"  curl -s {api}/api/v1/operator/inventory")
    say()
    say(click.style("  Ctrl-C stops everything; what was created stays in " + str(layout.root), dim=True))


def complain(line: str) -> None:
    click.echo(f"{click.style('error:', fg='red', bold=True)} {line}", err=True)


def failed(failure: StartFailed, log: Path) -> None:
    """Prints why a process could not start, with the last lines of its log."""
    complain(str(failure))
    for line in failure.log_tail:
        click.echo(f"  | {line}", err=True)
    if failure.log_tail:
        click.echo(f"  whole log: {log}", err=True)
