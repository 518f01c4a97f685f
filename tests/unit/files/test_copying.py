"""What `gpu-runtime files copy` copies, and what it says when it cannot."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from equipment.mutation import mutant
from equipment.privileges import needs_root
from gpu_runtime.cli.files import files
from gpu_runtime.files import copying, sparse_copy
from gpu_runtime.files.copying import copy_tree
from gpu_runtime.files.failure import FilesError
from gpu_runtime.files.progress import Progress, parse_progress
from gpu_runtime.files.reporting import Reporter
from unit.files.trees import (
    NOBODY,
    Described,
    big_tree,
    deep_folder,
    describe,
    layout,
    ordinary_user,
    sparse_file,
    unix_socket,
)

STOPS_IN_THE_MIDDLE = """
import signal, sys
from gpu_runtime.files import copying
from gpu_runtime.cli.files import files

real, left = copying.copy_content, 300

def copy_content(*arguments):
    global left
    left -= 1
    if left == 0:
        print("stopped", flush=True)
        signal.pause()
    real(*arguments)

copying.copy_content = copy_content
files(["copy", *sys.argv[1:]])
"""
STOPPING_COPY = [sys.executable, "-c", STOPS_IN_THE_MIDDLE]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    made.mkdir()
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    made = tmp_path / "target"
    made.mkdir()
    return made


def copy(source: Path, target: Path, *, clear: bool = False) -> list[str]:
    """Copies, and returns the lines that it said."""
    said: list[str] = []
    copy_tree(str(source), str(target), clear=clear, reporter=Reporter(said.append))
    return said


def differences(copied: Described, original: Described) -> list[tuple[bytes, object, object]]:
    paths = sorted(copied.keys() | original.keys())
    return [(path, copied.get(path), original.get(path)) for path in paths if copied.get(path) != original.get(path)]


@mutant("files/attributes.py", "os.utime(copy, ns=(info.st_atime_ns, info.st_mtime_ns))", "pass")
@mutant("files/copying.py", "for finished in reversed(self._folders):", "for finished in self._folders[:0]:")
@mutant("files/copying.py", "self._links[info.st_dev, info.st_ino] = parts", "pass")
def test_a_tree_of_10000_files_is_copied_faithfully(source: Path, target: Path) -> None:
    big_tree(source)
    source.chmod(0o1777)
    (target / "lost+found").mkdir()
    original = describe(source)
    said = copy(source, target)
    assert differences(describe(target), original) == []
    assert (target / "lost+found").is_dir()
    progress = parse_progress(said[-1])
    assert said[-1].startswith("done: ")
    assert progress is not None
    assert (progress.files, progress.bytes) == (progress.files_total, progress.bytes_total)
    assert progress.files == sum(1 for path in original if not _is_folder(source, path)) == 10_000
    assert describe(source) == original


def _is_folder(root: Path, path: bytes) -> bool:
    return stat.S_ISDIR(os.lstat(os.fsencode(root) + b"/" + path).st_mode)


@needs_root("file capabilities are set by root")
def test_the_capabilities_of_a_program_are_kept(source: Path, target: Path) -> None:
    (source / "program").write_text("x")
    capability = bytes.fromhex("0100000200040000000000000000000000000000")
    os.chown(source / "program", 7, 7)
    os.setxattr(source / "program", "security.capability", capability)
    copy(source, target)
    assert os.getxattr(target / "program", "security.capability") == capability


def test_a_copy_that_was_killed_is_not_done_and_a_copy_that_clears_makes_it_whole(source: Path, target: Path) -> None:
    big_tree(source, 1000)
    with subprocess.Popen([*STOPPING_COPY, str(source), str(target)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        output = b"".join(iter(process.stdout.readline, b"stopped\n"))
        process.send_signal(signal.SIGKILL)
    assert b"copied 0 of 1000 files" in output
    assert b"done" not in output
    assert 0 < sum(len(names) for _, _, names in os.walk(target)) < 1000
    with pytest.raises(FilesError, match="is not empty"):
        copy(source, target)
    copy(source, target, clear=True)
    assert differences(describe(target), describe(source)) == []


def test_a_path_of_any_depth_is_copied_and_cleared(source: Path, target: Path) -> None:
    deep_folder(source, 400)
    deep_folder(target, 100)
    said = copy(source, target, clear=True)
    assert said[-1].startswith("done: copied 1 files")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_holes_stay_holes(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("sparse")
    (folder / "source").mkdir()
    (folder / "target").mkdir()
    original, copied = (os.fsencode(folder / place / "file") for place in ("source", "target"))
    sparse_file(original, Random(seed))
    copy(folder / "source", folder / "target")
    assert Path(os.fsdecode(copied)).read_bytes() == Path(os.fsdecode(original)).read_bytes()
    assert layout(copied) == layout(original)


@pytest.mark.parametrize("working", [sparse_copy._in_kernel, sparse_copy._by_sendfile, sparse_copy._through_memory])
def test_every_way_to_copy_content_copies_all_of_it(
    working: sparse_copy.Copy, source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: int) -> int:
        raise OSError(18, "Invalid cross-device link")

    def answers_nothing(*_: int) -> int:
        return 0

    ways: list[Callable[..., int]] = [refuses, answers_nothing, working]
    if working is not sparse_copy._through_memory:
        ways.append(sparse_copy._through_memory)
    monkeypatch.setattr(sparse_copy, "WAYS", ways)
    (source / "file").write_bytes(Random(1).randbytes(5_000_001))
    sparse_file(os.fsencode(source / "sparse"), Random(2))
    copy(source, target)
    assert differences(describe(target), describe(source)) == []


def test_sockets_are_left_out_and_named(source: Path, target: Path) -> None:
    unix_socket(source / "agent")
    (source / "file").write_text("x")
    said = copy(source, target)
    assert "skipped socket 'agent'" in said
    assert [each.name for each in target.iterdir()] == ["file"]
    assert said[-1].startswith("done: copied 1 files")


def test_a_target_that_is_not_empty_is_refused_and_left_alone(source: Path, target: Path) -> None:
    (source / "file").write_text("new")
    (target / "other").write_text("old")
    result = CliRunner().invoke(files, ["copy", str(source), str(target)])
    assert result.exit_code == 1
    assert "is not empty" in result.output
    assert [each.name for each in target.iterdir()] == ["other"]


@pytest.mark.parametrize("inner", [("", ""), ("", "inner"), ("inner", "")])
def test_a_folder_is_not_copied_into_itself(inner: tuple[str, str], source: Path) -> None:
    (source / "inner").mkdir()
    with pytest.raises(FilesError, match="the same folder, or one of them lies in the other"):
        copy(source / inner[0], source / inner[1], clear=True)
    assert (source / "inner").is_dir()


@needs_root("a folder is mounted a second time")
@mutant("files/copying.py", "os.path.samestat(os.fstat(from_root), os.fstat(to_root))", "False")
def test_a_folder_that_is_mounted_twice_is_not_cleared_for_its_own_copy(source: Path, target: Path) -> None:
    (source / "file").write_text("x")
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True)
    try:
        with pytest.raises(FilesError, match="the same folder"):
            copy(source, target, clear=True)
    finally:
        subprocess.run(["umount", str(target)], check=True)
    assert (source / "file").exists()


def test_a_source_that_does_not_exist_is_named(tmp_path: Path, target: Path) -> None:
    with pytest.raises(FilesError, match="nowhere' is not a folder that can be opened: No such file"):
        copy(tmp_path / "nowhere", target)


@needs_root("root gives the files to others")
def test_an_unreadable_file_ends_the_copy_and_is_named(source: Path, target: Path) -> None:
    _belongs_to_nobody(source.parent, target, source)
    (source / "secret\n").write_text("x")
    (source / "secret\n").chmod(0o600)
    with ordinary_user(), pytest.raises(FilesError, match=r"cannot copy 'secret\\n': Permission denied"):
        copy(source, target)


@needs_root("root gives the files to others")
@mutant("files/attributes.py", "mode & ~(0 if user else stat.S_ISUID)", "mode")
def test_an_ordinary_user_keeps_all_but_owners_and_the_rights_that_depend_on_them(source: Path, target: Path) -> None:
    _belongs_to_nobody(source.parent, target, source)
    (source / "file").write_text("x")
    (source / "program").write_text("x")
    (source / "program").chmod(0o6755)
    (source / "read-only").mkdir()
    (source / "read-only" / "inner").write_text("x")
    (source / "read-only").chmod(0o555)
    with ordinary_user():
        said = copy(source, target)
        assert any("could not keep the owner or group" in line for line in said)
    assert [oct((target / name).stat().st_mode) for name in ("file", "program", "read-only")] == [
        oct((source / "file").stat().st_mode), oct(0o100755), oct(0o40555)
    ]  # fmt: skip
    assert (target / "program").stat().st_uid == NOBODY
    assert (target / "read-only").stat().st_mtime_ns == (source / "read-only").stat().st_mtime_ns


def _belongs_to_nobody(*folders: Path) -> None:
    for folder in folders:
        os.chown(folder, NOBODY, NOBODY)
    for parent in folders[0].parents:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(0o711)


@mutant("files/copying.py", "if _version(os.fstat(original)) != _version(info):", "if False:")
def test_a_file_that_changes_while_it_is_copied_ends_the_copy(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _while_copying(monkeypatch, lambda: (source / "file").write_text("longer than before"))
    (source / "file").write_text("x")
    with pytest.raises(FilesError, match="'file' changed while it was copied"):
        copy(source, target)


@mutant("files/copying.py", "if _version(os.fstat(original)) != _version(finished.info):", "if False:")
def test_a_file_that_appears_while_its_folder_is_copied_ends_the_copy(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _while_copying(monkeypatch, lambda: (source / "another").write_text("x"))
    (source / "file").write_text("x")
    with pytest.raises(FilesError, match=r"'\.' changed while it was copied"):
        copy(source, target)


def test_a_file_that_vanishes_while_the_tree_is_copied_ends_the_copy(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _while_copying(monkeypatch, (source / "file2").unlink)
    (source / "file1").write_text("x")
    (source / "file2").write_text("x")
    with pytest.raises(FilesError, match="cannot copy 'file2': No such file or directory"):
        copy(source, target)


def _while_copying(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    real = sparse_copy.copy_content

    def changed(source: int, target: int, size: int, advanced: Callable[[int], None]) -> None:
        real(source, target, size, advanced)
        monkeypatch.setattr(copying, "copy_content", real)
        change()

    monkeypatch.setattr(copying, "copy_content", changed)


@needs_root("a small file system is mounted")
def test_a_target_without_space_is_told_in_words(source: Path, target: Path) -> None:
    (source / "file").write_bytes(b"x" * 2**20)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(target)], check=True)
    try:
        with pytest.raises(FilesError, match=r"cannot copy 'file': No space left on device; the target is too small:"):
            copy(source, target)
    finally:
        subprocess.run(["umount", str(target)], check=True)


def test_progress_is_said_first_then_at_most_every_two_seconds_and_parsed_back(source: Path, target: Path) -> None:
    for number in range(10):
        (source / f"file{number}").write_text("1234")
    now, said = 0.0, list[str]()

    def clock() -> float:
        nonlocal now
        now += 0.1
        return now

    copy_tree(str(source), str(target), clear=False, reporter=Reporter(said.append, clock))
    assert said[0] == "copied 0 of 10 files, 0 B of 40 B (bytes 0/40)"
    assert said[-1] == "done: copied 10 files, 40 B (bytes 40/40)"
    progress = [parse_progress(line) for line in said]
    assert progress == sorted(each for each in progress if each is not None)
    assert 3 < len(said) < 10


@given(st.tuples(*[st.integers(0, 2**60)] * 4))
def test_every_progress_line_is_parsed_back(numbers: tuple[int, int, int, int]) -> None:
    progress = Progress(*numbers)
    assert parse_progress(progress.line + "\n") == progress
    done = progress._replace(files_total=progress.files)
    assert parse_progress(done.done_line) == done


@pytest.mark.parametrize(
    "line", ["", "Error: cannot copy 'x'", "copied 1 of 2 files", "copied x of 2 files, (bytes 1/2)"]
)
def test_other_lines_are_no_progress(line: str) -> None:
    assert parse_progress(line) is None
