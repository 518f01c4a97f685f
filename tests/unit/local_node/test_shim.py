"""The shim's pure parts: mount table, log entries, and what it may import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_runtime.local.node import isolated_python
from gpu_runtime.local.node.shim import documents
from gpu_runtime.local.node.shim.logs import LONGEST_LINE, LogFile, Stream
from gpu_runtime.local.node.shim.mounts import carried_mounts

TABLE = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
24 22 8:2 / /home rw - ext4 /dev/sda2 rw
25 22 8:3 / /srv/models\\040big rw - xfs /dev/sdb rw
26 22 0:30 / /usr/local/driver ro - squashfs /dev/loop0 ro
27 22 0:31 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
28 22 8:4 / /run/media/disk rw - ext4 /dev/sdc rw
29 22 8:5 / /var/lib/cluster/disk rw - ext4 /dev/sdd rw
30 22 8:6 / /var/cache rw - ext4 /dev/sde rw
31 30 0:40 / /var/cache rw - proc proc rw
"""


def test_disks_below_a_top_level_directory_are_carried_and_nothing_virtual_or_hidden() -> None:
    # /home is a top-level directory and carried as such; /var/cache is covered by something virtual.
    assert carried_mounts(TABLE.splitlines(), ["/var/lib/cluster"]) == ["/srv/models big", "/usr/local/driver"]


def entries(path: Path) -> list[tuple[str, str, str]]:
    found = []
    for line in path.read_text().splitlines():
        _, stream, tag, text = line.split(" ", 3)
        found.append((stream, tag, text))
    return found


def test_a_line_that_arrives_in_pieces_is_one_entry(tmp_path: Path) -> None:
    stream = Stream("stdout", LogFile(str(tmp_path / "log"), 1 << 20, 2))
    for piece in (b"he", b"llo\n\nwor", b"ld\n", b"rest"):
        stream.feed(piece)
    stream.end()
    assert entries(tmp_path / "log") == [
        ("stdout", "F", "hello"),
        ("stdout", "F", ""),
        ("stdout", "F", "world"),
        ("stdout", "P", "rest"),
    ]


def test_a_line_without_end_is_cut_into_partial_entries(tmp_path: Path) -> None:
    stream = Stream("stderr", LogFile(str(tmp_path / "log"), 1 << 20, 2))
    stream.feed(b"x" * (2 * LONGEST_LINE) + b"tail\n")
    assert [(tag, len(text)) for _, tag, text in entries(tmp_path / "log")] == [
        ("P", LONGEST_LINE),
        ("P", LONGEST_LINE),
        ("F", 4),
    ]


@pytest.mark.parametrize("files", [1, 3])
def test_rotation_keeps_so_many_files_of_so_many_bytes(tmp_path: Path, files: int) -> None:
    stream = Stream("stdout", LogFile(str(tmp_path / "log"), 1000, files))
    stream.feed(b"".join(b"%d\n" % number for number in range(500)))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["log", *(f"log.{number}" for number in range(1, files))]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    assert entries(tmp_path / "log")[-1][2] == "499"


def test_a_document_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "document")
    documents.write(path, {"a": 1})
    documents.write(path, {"b": 2})
    assert documents.read(path) == {"b": 2}
    assert [entry.name for entry in tmp_path.iterdir()] == ["document"]


def test_the_shim_needs_the_standard_library_alone() -> None:
    """It runs without site packages; a module of ours that imports one would break every pod."""
    command = isolated_python.command("gpu_runtime.local.node.shim.zygote")
    script = command[-1].replace("main()", "import sys; print(*sorted(sys.modules), sep='\\n')")
    loaded = subprocess.run([*command[:-1], script], check=True, capture_output=True, text=True).stdout.split()
    foreign = {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names) - {"__main__"}
    assert {name for name in foreign if not name.startswith("_")} == {"gpu_runtime"}
    assert "pathlib" not in loaded
