"""The whole product as a person starts it: `gpu-runtime up` as a child process."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipment.waiting import eventually_sync
from gpu_runtime.cmd.up.layout import Layout
from gpu_runtime.cmd.up.status import Status, read_status
from realkube import binaries
from realkube.api import Access
from realkube.process import free_ports

COMMAND = (sys.executable, "-m", "gpu_runtime.cli")
ALL_READY = "Ctrl-C stops everything"
START_SECONDS = 120
STOP_SECONDS = 120


@dataclass
class Up:
    """One `gpu-runtime up` on a data directory of its own."""

    data_dir: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        remembered = Layout.at(self.data_dir).remembered()
        assert remembered is not None
        return Path(remembered.kubeconfig)

    @property
    def said(self) -> str:
        path = self._output
        return path.read_text() if path.exists() else ""

    @property
    def _output(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.out")

    def begin(self) -> None:
        """Starts it without waiting."""
        with self._output.open("wb") as out:
            self.process = subprocess.Popen(
                [*COMMAND, "up", "--data-dir", str(self.data_dir), "--port", str(self.port), *self.options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start(self) -> Up:
        """Starts it and waits until everything is ready."""
        self.begin()
        eventually_sync(self._is_up, within=START_SECONDS, what="gpu-runtime up is ready")
        return self

    def _is_up(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"gpu-runtime up ended with {self.process.returncode}:\n{self.said}\n{self.logs()}")
        return ALL_READY in self.said

    def stop(self) -> int:
        """Stops it in order; its exit code. Not by SIGINT: a shell that starts CI in the background has it ignored."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        """The supervisor alone, without its farewell."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def command(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another command of gpu-runtime on the same data directory."""
        return subprocess.run(
            [*COMMAND, name, "--data-dir", str(self.data_dir), *arguments], capture_output=True, text=True, check=False
        )

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request to the REST API: the status and the document of the answer. 0 when nobody answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except (OSError, http.client.HTTPException):
            return 0, None

    def status(self) -> Status:
        return read_status(Layout.at(self.data_dir))

    def until_healthy(self) -> None:
        """Waits until all processes are ready; a test that waits in vain says which is not, and why."""

        def healthy() -> bool:
            status = self.status()
            assert status.healthy, [(each.record.name, each.problem) for each in status.processes if each.problem]
            return True

        eventually_sync(healthy, what="all processes are ready again")

    def logs(self, lines: int = 20) -> str:
        """The end of every process's log, for a failed test."""
        folder = self.data_dir / "up" / "logs"
        return "\n".join(
            f"-- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
            for path in sorted(folder.glob("*.log"))
        )

    def kubernetes(self, folder: Path) -> Access:
        """The cluster's API, as its kubeconfig reaches it."""
        return Access.of_kubeconfig(self.kubeconfig, folder)


@contextmanager
def running_up(data_dir: Path, *options: str) -> Iterator[Up]:
    """`gpu-runtime up`, ready; whatever the test did to it, nothing of it runs afterwards."""
    up = Up(data_dir, options=options)
    try:
        yield up.start()
    finally:
        end(up)


def end(up: Up) -> None:
    """Ends what is left, the supervisor first, and shows the logs for a test that failed."""
    if up.process is not None and up.process.poll() is None:
        up.stop()
    up.command("down")
    sys.stderr.write(f"{up.said}\n{up.logs()}\n")  # pytest shows what a teardown wrote only when the test has failed


def kubectl() -> Path | None:
    """The kubectl of this machine, if it has one."""
    installed = shutil.which("kubectl")
    return Path(installed) if installed else binaries.found("kubectl")
