"""`gpu-runtime local-cluster` as a person starts and stops it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipment.waiting import eventually_sync

STOP_SECONDS = 60


@contextmanager
def local_cluster(data: Path, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A running cluster with its kubeconfig in `data`; unless the test killed it, it must end well when asked to."""
    command = [sys.executable, "-m", "gpu_runtime.cli", "local-cluster", "--data-dir", str(data), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        eventually_sync(lambda: is_ready(process, log), what="the cluster is ready")
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_SECONDS) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def is_ready(process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"local-cluster ended with {process.returncode}: {log.read_text()}")
    return any(line.startswith("ready: ") for line in log.read_text().splitlines())


def children(cluster: int) -> dict[str, int]:
    """The processes of a cluster beside its first, by the last word of their module's name."""
    found = {}
    for pid in Path(f"/proc/{cluster}/task/{cluster}/children").read_text().split():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except OSError:  # it has just ended
            continue
        if "-m" in words:
            found[words[words.index("-m") + 1].rpartition(".")[2]] = int(pid)
    return found
