"""The result store as a process, on the broker and the database of a test.

Run as a script, this file is the result store, which kills itself where the first argument says.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import msgspec
import yaml

from equipment.nats import NatsServer, free_port
from equipment.results import ResultDatabase
from gpu_runtime.cli.main import main as gpu_runtime
from gpu_runtime.config import Health, ResultStoreSettings
from gpu_runtime.serverless.results.pulling import PullConsumer
from gpu_runtime.serverless.results.store import Store

CrashPoint = Literal["never", "before-commit", "after-commit"]


class StoreProcess:
    """One replica."""

    def __init__(self, folder: Path, server: NatsServer, database: ResultDatabase, **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.health = Health(port=free_port())
        self.log = folder / "log"
        self._config = folder / "result-store.yaml"
        chosen = ResultStoreSettings(health=self.health, nats=server.settings, results=database.settings, **settings)
        self._config.write_text(yaml.safe_dump(msgspec.to_builtins(chosen)))

    @contextmanager
    def running(self, crash: CrashPoint = "never") -> Iterator[subprocess.Popen[bytes]]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, __file__, crash, "result-store", "--config", str(self._config)],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    crash = sys.argv.pop(1)
    if crash == "before-commit":
        patch.object(Store, "save", die).start()
    elif crash == "after-commit":
        patch.object(PullConsumer, "acknowledge", die).start()
    gpu_runtime()
