from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from equipment.mutation import mutant
from gpu_runtime.files import archive
from gpu_runtime.files.errors import Incomplete
from gpu_runtime.files.volume import Volume
from unit.files.world import PREFIX, SECRET, a_volume, fetch, serving


def a_tree(folder: Path) -> None:
    """Everything that a tree of files can hold."""
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "file").write_bytes(os.urandom(700_000))
    (folder / "empty folder").mkdir()
    (folder / "empty").touch()
    (folder / "exactly a block").write_bytes(b"x" * 512)
    (folder / ("n" * 255)).write_text("a long name")
    (folder / os.fsdecode(b"\xff\xfe")).write_text("a name that is no text")
    (folder / "naïve 名").write_text("a name of other scripts")
    (folder / "two\nlines").write_text("a newline")
    (folder / "runs").write_text("#!/bin/sh\n")
    (folder / "runs").chmod(0o4755)
    (folder / "closed").mkdir(mode=0o700)
    (folder / "inside").symlink_to("deep/er/file")
    (folder / "outside").symlink_to("../../secret/passwd")
    (folder / "absolute").symlink_to("/etc/passwd")
    (folder / "folder link").symlink_to("deep")
    (folder / "long link").symlink_to("x" * 300)
    os.link(folder / "empty", folder / "hard link")
    os.mkfifo(folder / "pipe")
    with (folder / "sparse").open("wb") as file:
        file.truncate(3_000_000)
    os.utime(folder / "runs", (1_600_000_000, 1_600_000_000))
    (folder / "\\odd").write_text("a backslash")


def described(folder: Path) -> dict[str, tuple[object, ...]]:
    """Each entry below the folder: type, permissions, time, and content or target."""
    found: dict[str, tuple[object, ...]] = {}
    for path in folder.rglob("*"):
        info = path.lstat()
        mode, modified = stat.S_IMODE(info.st_mode), int(info.st_mtime)
        if path.is_symlink():
            found[str(path.relative_to(folder))] = ("link", os.readlink(path))  # noqa: PTH115  the exact text
        elif path.is_dir():
            found[str(path.relative_to(folder))] = ("folder", mode, modified)
        elif path.is_file():
            found[str(path.relative_to(folder))] = ("file", mode, modified, path.read_bytes())
    return found


async def test_an_archive_holds_the_tree_as_it_is(tmp_path: Path) -> None:
    tree, unpacked = tmp_path / "volume", tmp_path / "unpacked"
    tree.mkdir()
    a_tree(tree)
    async with serving(tree) as port:
        answer = await fetch(port, f"{PREFIX}/?archive=tar")
    assert answer.headers["content-type"] == "application/x-tar"
    assert answer.headers["content-disposition"].startswith('attachment; filename="data.tar"')
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as tar:
        tar.extractall(unpacked, filter="fully_trusted")
    assert described(unpacked / "data") == described(tree)
    assert not (unpacked / "data" / "pipe").exists()


async def test_an_archive_of_a_folder_below_is_named_after_it(tmp_path: Path) -> None:
    async with serving(a_volume(tmp_path)) as port:
        answer = await fetch(port, f"{PREFIX}/models/?archive=tar")
    assert answer.headers["content-disposition"].startswith('attachment; filename="models.tar"')
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as tar:
        assert set(tar.getnames()) == {
            "models",
            "models/readme.md",
            "models/small",
            "models/small/weights.bin",
        }


async def test_links_are_stored_as_links_and_never_followed(tmp_path: Path) -> None:
    volume = a_volume(tmp_path)
    (volume / "out").symlink_to("../secret")
    (volume / "loop").symlink_to(".")
    async with serving(volume) as port:
        answer = await fetch(port, f"{PREFIX}/?archive=tar")
    assert SECRET not in answer.body
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as tar:
        assert (tar.getmember("data/out").issym(), tar.getmember("data/out").linkname) == (True, "../secret")
        assert tar.getmember("data/loop").issym()


def test_the_pieces_of_an_archive_stay_small(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(50_000_000)
    for number in range(3000):
        (tmp_path / f"{number}").touch()
    volume = Volume(tmp_path)
    folder = volume.open([])
    sizes = [len(piece) for piece in archive.pieces(folder, b"x")]
    assert max(sizes) < 3 * archive.PIECE
    assert len(sizes) < sum(sizes) / archive.PIECE + 2
    folder.close()
    volume.close()


def test_a_file_that_becomes_shorter_makes_the_archive_fail(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(5_000_000)
    volume = Volume(tmp_path)
    folder = volume.open([])
    made = archive.pieces(folder, b"x")
    next(made)
    (tmp_path / "large").write_bytes(b"")
    with pytest.raises(Incomplete):
        list(made)
    folder.close()
    volume.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@mutant("files/archive.py", "suppress(FileNotFoundError, FileNotServed)", "suppress(FileNotServed)")
def test_a_file_that_vanishes_is_left_out_of_the_archive(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"x")
    volume = Volume(tmp_path)
    top = volume.open([])
    parts = archive._parts(top, b"top")
    begun = [next(parts), next(parts)]  # the folder, and the header of the first file
    for each in tmp_path.iterdir():
        each.unlink()
    assert len([*begun, *parts]) == 4, "two headers, the content of the first file, and its padding"
    top.close()
    volume.close()


@mutant("files/archive.py", "if len(levels) > DEEPEST:", "if False:")
def test_folders_that_are_too_deep_make_the_archive_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "DEEPEST", 1)
    (tmp_path / "a" / "b").mkdir(parents=True)
    volume = Volume(tmp_path)
    top = volume.open([])
    with pytest.raises(Incomplete):
        list(archive.pieces(top, b"top"))
    top.close()
    volume.close()


def test_an_archive_that_nobody_reads_to_its_end_leaves_no_file_open(tmp_path: Path) -> None:
    a_tree(tmp_path)
    volume = Volume(tmp_path)
    before = open_files()
    for read in range(6):
        folder = volume.open([])
        made = archive.pieces(folder, b"x")
        for _ in range(read):
            next(made, None)
        made.close()
        folder.close()
    assert open_files() == before
    volume.close()
