"""`gpu-runtime up`: prepares the data directory, runs the supervisor and returns the exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

from gpu_runtime.cmd.processes import PROCESSES
from gpu_runtime.cmd.up import console
from gpu_runtime.cmd.up.broker import LocalBroker
from gpu_runtime.cmd.up.layout import Installation, Layout, Ports
from gpu_runtime.cmd.up.ports import choose
from gpu_runtime.cmd.up.programs import CLUSTER, cluster, product, what_the_machine_allows
from gpu_runtime.cmd.up.settings import names_broker, write_settings
from gpu_runtime.errors import ConfigError
from gpu_runtime.local.node.hidden import ShownFolder
from gpu_runtime.supervisor.events import StartFailed
from gpu_runtime.supervisor.holder import Held, hold
from gpu_runtime.supervisor.program import Program
from gpu_runtime.supervisor.supervisor import Supervisor

EXIT_FAILED = 1  # a process could not be started
EXIT_HELD = 3  # another `up` runs on the data directory


@dataclass(frozen=True)
class Options:
    layout: Layout
    port: int = 8080
    gpus: int | None = None
    config: Path | None = None
    kubeconfig: Path | None = None
    """A cluster to use in place of an embedded one."""
    shown: tuple[str, ...] = ()
    """Folders of homes that pods see: PATH, or PATH:rw."""


def up(options: Options) -> int:
    """Runs all processes until a signal, then stops them all. Raises ConfigError for options that cannot work."""
    if options.kubeconfig is not None and options.gpus is not None:
        raise ConfigError("--gpus works only with the embedded cluster: the cluster of --kubeconfig has its own nodes")
    options = replace(options, shown=_folders(options))
    folder = options.layout.supervised
    try:
        with ExitStack() as held_until_the_end:
            with _writing(options.layout):
                folder.make()
                held_until_the_end.enter_context(hold(folder.lock))
            return asyncio.run(_run(options))
    except Held as held:
        console.complain(f"{options.layout.root} is in use by another `gpu-runtime up`: {held}")
        return EXIT_HELD


@contextmanager
def _writing(layout: Layout) -> Iterator[None]:
    """Turns OSError (the data directory is full or read-only) into ConfigError."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"data directory {layout.root} cannot be used: {error.strerror}") from error


def _folders(options: Options) -> tuple[str, ...]:
    """The folders of --show, with absolute paths."""
    if options.kubeconfig is not None and options.shown:
        raise ConfigError("--show works only with the embedded cluster: the cluster of --kubeconfig has its own nodes")
    try:
        return tuple(str(ShownFolder.parse(folder)) for folder in options.shown)
    except ValueError as error:
        raise ConfigError(f"--show: {error}") from error


async def _run(options: Options) -> int:
    layout, folder = options.layout, options.layout.supervised
    console.say(f"gpu-runtime {version('gpu-runtime')} on {layout.root}")
    try:
        ports, kubeconfig, programs = await plan(options)
        supervisor = Supervisor(folder, programs, console.print_event)
        with _signals(supervisor) as stop:
            await supervisor.run(stop, all_ready=lambda: _welcome(layout, ports, kubeconfig))
    except StartFailed as failure:
        console.failed(failure, folder.log(failure.name))
        return EXIT_FAILED
    return 0


def _welcome(layout: Layout, ports: Ports, kubeconfig: Path) -> None:
    machine = what_the_machine_allows(layout.supervised.log(CLUSTER)) if kubeconfig == layout.kubeconfig else ()
    console.welcome(layout, ports, kubeconfig, machine)


async def _install(kubeconfig: Path, loading: Awaitable[ModuleType], broker_port: int | None = None) -> None:
    await (await loading).install(kubeconfig, broker_port)


async def plan(options: Options) -> tuple[Ports, Path, list[Program]]:
    """Chooses ports, kubeconfig and programs. Writes the settings files and saves the ports."""
    layout, folder = options.layout, options.layout.supervised
    # Importing the Kubernetes client takes as long as the start of the cluster, so both run at the same time.
    loading = asyncio.get_running_loop().run_in_executor(None, import_module, "gpu_runtime.cmd.up.install")
    before = layout.remembered()
    processes = [process for process in PROCESSES.values() if process.up is not None]
    own_cluster = options.kubeconfig is None
    ports = choose(options.port, processes, before.ports if before else None, _kept(layout))
    kubeconfig = options.kubeconfig.absolute() if options.kubeconfig is not None else layout.kubeconfig
    broker = None if names_broker(processes, options.config) else LocalBroker(layout, ports)
    with _writing(layout):
        if broker is not None:
            broker.write()
        settings = write_settings(
            folder, processes, options.config, ports, broker, database=layout.results, own_cluster=own_cluster
        )
        layout.remember(Installation(ports=ports, kubeconfig=str(kubeconfig)))
    own_broker = broker is not None
    programs = product(processes, settings, kubeconfig, ports, own_cluster=own_cluster, own_broker=own_broker)
    if broker is not None:
        programs = [broker.program(), *programs]
    if not own_cluster:
        await _install(kubeconfig, loading)
        return ports, kubeconfig, programs
    prepare = partial(_install, kubeconfig, loading, ports.broker if own_broker else None)
    embedded = cluster(layout, ports, options.gpus, options.shown, prepare, own_broker=own_broker)
    return ports, kubeconfig, [embedded, *programs]


def _kept(layout: Layout) -> frozenset[int]:
    """Ports of processes that an earlier `up` left: this `up` adopts or ends those processes."""
    running = [record for record in layout.supervised.records() if record.identity.running()]
    urls = [url for record in running for url in (record.health, record.address)]
    return frozenset(port for url in urls if (port := urlsplit(url).port) is not None)


@contextmanager
def _signals(supervisor: Supervisor) -> Iterator[asyncio.Event]:
    """Yields an event that the first signal sets. A second signal kills all processes that still run."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set():
            console.say("  killing the processes that still run")
            supervisor.hurry()
            return
        console.say("\n  stopping; press Ctrl-C again to kill")
        stop.set()

    # Keep ignored signals ignored: under nohup, `up` must survive the SIGHUP of its terminal.
    wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    signals = [each for each in wanted if signal.getsignal(each) is not signal.SIG_IGN]
    for each in signals:
        loop.add_signal_handler(each, asked)
    try:
        yield stop
    finally:
        for each in signals:
            loop.remove_signal_handler(each)
