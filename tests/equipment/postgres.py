"""A real PostgreSQL on loopback, from Debian's packages."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import asyncpg

from equipment.nats import free_port
from equipment.waiting import eventually_sync
from gpu_runtime.config.results import ResultsSettings
from realkube import packages
from steps import descendants

PASSWORD = "a secret / with : odd @ characters"
PROGRAMS = Path("/usr/lib/postgresql")
NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/gpu-runtime.conf")


def programs(say: Callable[[str], None]) -> Path:
    """The folder of the newest installed server; installs one if there is none."""
    if not _installed():
        # The package would start a server of its own.
        NO_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
        NO_CLUSTER.write_text("create_main_cluster = false\n")
        say("installing postgresql")
        done = packages.apt_get("install", "postgresql")
        if done.returncode != 0:  # the package lists of a fresh machine are empty or old
            packages.apt_get("update")
            done = packages.apt_get("install", "postgresql")
        assert done.returncode == 0, f"apt-get install postgresql failed: {done.stderr}"
    return _installed()[-1]


def _installed() -> list[Path]:
    found = [path.parent for path in PROGRAMS.glob("*/bin/postgres")]
    return sorted(found, key=lambda path: int(path.parent.name))


@dataclass
class PostgresServer:
    """A server that can be killed and started again on the same port and data."""

    programs: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def fresh_schema(self) -> ResultsSettings:
        """A new schema for one test: much faster than a new database."""
        name = f"test_{uuid4().hex[:12]}"
        assert self.execute(f"CREATE SCHEMA {name}")
        return ResultsSettings(
            database=f"postgresql://results@127.0.0.1:{self.port}/postgres?search_path={name}",
            passwordFile=str(self.folder / "password"),
            tlsMode="disable",
        )

    def initialise(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD + "\n")
        for path in (self.folder, password):
            if (user := _unprivileged()) is not None:
                os.chown(path, user, -1)
        done = subprocess.run(
            [
                *(self.programs / "initdb", "--pgdata", self.folder / "data", "--no-sync", "--encoding=UTF8"),
                *("--username=results", "--auth=scram-sha-256", f"--pwfile={password}"),
            ],
            cwd=self.folder,
            user=_unprivileged(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "16MB",
            "max_connections": "60",
            "autovacuum": "off",
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.programs / "postgres", "-D", self.folder / "data"),
                    *(word for name, value in options.items() for word in ("-c", f"{name}={value}")),
                ],
                cwd=self.folder,
                user=_unprivileged(),
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """SIGKILL of the server with all its processes, as when the machine takes them away."""
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def signal(self, number: signal.Signals) -> None:
        """To the server and all its processes, each of which has a session of its own."""
        assert self.process is not None
        for process in (self.process.pid, *descendants(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def wait_until_it_answers(self) -> None:
        eventually_sync(lambda: self.execute("SELECT 1"), what="PostgreSQL answers")

    def execute(self, sql: str) -> bool:
        """Whether the server executed it."""

        async def run() -> None:
            connection = await asyncpg.connect(
                host="127.0.0.1", port=self.port, user="results", password=PASSWORD, database="postgres", ssl="disable"
            )
            try:
                await connection.execute(sql)
            finally:
                await connection.close()

        try:
            with ThreadPoolExecutor(1) as threads:  # this thread may have a loop that runs
                threads.submit(lambda: asyncio.run(run())).result()
        except (OSError, asyncpg.CannotConnectNowError):
            return False
        return True


@contextmanager
def running_postgres(say: Callable[[str], None] = print) -> Iterator[PostgresServer]:
    # Not below pytest's folder: only root may enter that, and the server refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="gpu-runtime-postgres-"))
    server = PostgresServer(programs(say), folder, free_port())
    try:
        server.initialise()
        server.start()
        server.wait_until_it_answers()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)


def _unprivileged() -> int | None:
    return pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else None
