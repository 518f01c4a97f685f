"""`gpu-runtime files serve` as a process: large files, memory, slow clients, and its end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from equipment.waiting import eventually_sync

GIB = 1 << 30
MARK = b"here it is"
MOST_GROWTH = 64 << 20  # bytes of memory; a server that held a file would need 1 GiB


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[str]
    port: int

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    @contextmanager
    def get(self, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
        with closing(self.connection()) as connection:
            connection.request("GET", f"/storages/default/data{path}", headers=headers)
            yield connection.getresponse()

    def peak_memory(self) -> int:
        """The most that the process ever held, in bytes."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(peak) * 1024


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "gpu_runtime.cli", "files", "serve", str(folder), "--port", "0", *options]
    command += ["--prefix", "/storages/default/data"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = json.loads(process.stderr.readline())["url"]
            yield Server(process, urlsplit(url).port or 0)
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(GIB)
        file.seek(GIB // 2)
        file.write(MARK)
    (tmp_path / "small").write_text("small\n")
    return tmp_path


def drained(answer: http.client.HTTPResponse) -> int:
    """How many bytes the body has; read and thrown away."""
    count = 0
    while piece := answer.read(1 << 20):
        count += len(piece)
    return count


def test_a_file_of_1_gib_is_served_whole_and_in_parts_in_constant_memory(folder: Path) -> None:
    with serving(folder) as server:
        with server.get("/small") as answer:
            assert answer.read() == b"small\n"
        before = server.peak_memory()
        with server.get("/large") as answer:
            assert (answer.status, drained(answer)) == (200, GIB)
        middle = GIB // 2
        with server.get("/large", Range=f"bytes={middle}-{middle + len(MARK) - 1}") as answer:
            assert (answer.status, answer.read()) == (206, MARK)
        with server.get("/large", Range=f"bytes={middle}-") as answer:
            assert (answer.status, drained(answer)) == (206, GIB - middle)
        assert server.peak_memory() - before < MOST_GROWTH


def test_many_large_downloads_at_once_stay_in_constant_memory(folder: Path) -> None:
    def download(number: int) -> int:
        start = number << 20
        with server.get("/large", Range=f"bytes={start}-{start + (64 << 20) - 1}") as answer:
            return drained(answer)

    with serving(folder) as server, ThreadPoolExecutor(8) as clients:
        with server.get("/small") as answer:
            answer.read()
        before = server.peak_memory()
        assert set(clients.map(download, range(16))) == {64 << 20}
        assert server.peak_memory() - before < MOST_GROWTH


def test_an_archive_of_a_large_folder_is_made_in_constant_memory(folder: Path) -> None:
    with serving(folder) as server:
        with server.get("/small") as answer:
            answer.read()
        before = server.peak_memory()
        with server.get("/?archive=tar") as answer, tarfile.open(fileobj=answer, mode="r|") as tar:
            found = {member.name: member.size for member in tar}
        assert found == {"data": 0, "data/large": GIB, "data/small": 6}
        assert server.peak_memory() - before < MOST_GROWTH


def test_a_folder_of_100_000_entries_is_listed_in_pages(tmp_path: Path) -> None:
    for number in range(100_000):
        os.close(os.open(tmp_path / f"{number:06}", os.O_CREAT | os.O_WRONLY))
    with serving(tmp_path) as server:
        before = server.peak_memory()
        seen, query = 0, "?format=json&limit=10000"
        while query:
            with server.get(f"/{query}") as answer:
                page = json.loads(answer.read())
            assert len(page["entries"]) <= 10_000
            assert page["entries"][0]["name"] == f"{seen:06}"
            seen, query = seen + len(page["entries"]), page["next"]
        assert seen == 100_000
        with server.get("/") as answer:
            assert answer.read().count(b"<tr>") == 1001
        assert server.peak_memory() - before < MOST_GROWTH


def test_sigterm_lets_a_running_download_end_and_exits_with_0(folder: Path) -> None:
    length = 200 << 20
    with serving(folder, "--drain-seconds", "60") as server, server.get("/large", Range=f"bytes=-{length}") as answer:
        got = len(answer.read(1 << 20))
        server.process.send_signal(signal.SIGTERM)
        eventually_sync(lambda: _refused(server), what="no new connection is accepted")
        assert got + drained(answer) == length
        assert server.process.wait(60) == 0


def test_a_download_that_outlasts_the_drain_is_cut_off_and_does_not_look_complete(folder: Path) -> None:
    with serving(folder, "--drain-seconds", "0.1") as server, server.get("/large") as answer:
        answer.read(1 << 20)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()


def test_more_clients_than_it_serves_at_once_are_told_to_come_back(folder: Path) -> None:
    with serving(folder) as server:
        held = []
        for _ in range(64):
            connection = server.connection()
            connection.request("GET", "/storages/default/data/large")
            held.append((connection, connection.getresponse()))
        with server.get("/small") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        with closing(server.connection()) as connection:
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
        for connection, response in held:
            response.close()
            connection.close()

        def served() -> bool:
            with server.get("/small") as answer:
                return answer.status == 200

        eventually_sync(served, what="the clients that left have made room")


def _refused(server: Server) -> bool:
    with closing(server.connection()) as connection:
        try:
            connection.connect()
        except ConnectionRefusedError:
            return True
    return False


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["/nowhere"], "cannot open the folder /nowhere: No such file or directory"),
        (["/", "--prefix", "storages/"], "must begin with a slash and not end with one"),
        (["/", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1:5000"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    command = [sys.executable, "-m", "gpu_runtime.cli", "files", "serve", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
