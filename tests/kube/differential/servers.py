"""The two servers that are compared: a real kube-apiserver with nothing else that writes, and the embedded one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from equipment.servers import RUNNING_SERVER, ApiServer, use_running
from realkube import binaries, flags
from realkube.api import Access
from realkube.control_plane import ControlPlane
from realkube.process import Process, free_ports, wait_until


class BareControlPlane(ControlPlane):
    """etcd and kube-apiserver alone: no controller or scheduler writes between two calls of a case."""

    options: Sequence[str] = ()
    """More flags of kube-apiserver."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        programs = binaries.ensure("etcd", "kube-apiserver", "kubectl", say=self._say)
        etcd_port, peer_port, api_port = free_ports(3, self._address)
        self.admin = Access(f"https://{self._address}:{api_port}", self.authority.ca_file, self.admin_user.token)
        flags_ = flags.apiserver(self._identity(), self._address, api_port, etcd_port, self._service_network)
        self._server = (programs["kube-apiserver"], [*flags_, *self.options])
        try:
            self._run(programs["etcd"], flags.etcd(self.folder / "etcd", self._address, etcd_port, peer_port))
            self._start_server()
        except BaseException:
            self.stop()
            raise
        self.admin.write_kubeconfig(self.kubeconfig)

    def forget(self) -> None:
        """Starts kube-apiserver anew: its cache of past versions begins with the present one."""
        self._processes.pop().kill()
        self._start_server()

    def _start_server(self) -> None:
        self._run(*self._server)
        self._wait(self.admin.ready, "kube-apiserver is ready")


@contextmanager
def real_server(folder: Path) -> Iterator[ApiServer]:
    """A real server: the running one that the environment names, else one of its own."""
    if given := os.environ.get(RUNNING_SERVER):
        folder.mkdir(parents=True)
        with use_running(Path(given), folder) as server:
            yield server
        return
    with own_real_server(folder) as server:
        yield server


@contextmanager
def own_real_server(folder: Path) -> Iterator[ApiServer]:
    """A real server that ends with the test."""
    folder.mkdir(parents=True)
    with (
        BareControlPlane(folder / "plane", say=lambda _: None) as plane,
        use_running(plane.kubeconfig, folder) as server,
    ):
        yield replace(server, plane=plane)


@contextmanager
def embedded_server(folder: Path, *options: str) -> Iterator[ApiServer]:
    """An embedded server that runs as a child process."""
    folder.mkdir(parents=True)
    data = folder / "data"
    command = [sys.executable, "-m", "gpu_runtime.local.apiserver", "--data-dir", str(data), *options]
    process = Process("embedded", command, folder / "embedded.log")
    try:
        wait_until((data / "kubeconfig").exists, "the embedded server answers", [process])
        with use_running(data / "kubeconfig", folder) as server:
            yield server
    finally:
        process.kill()
