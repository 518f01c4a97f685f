"""What `gpu-runtime files clear` removes, and what it leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from equipment.mutation import mutant
from equipment.privileges import needs_root
from gpu_runtime.cli.files import files
from gpu_runtime.files.clearing import clear
from gpu_runtime.files.failure import FilesError
from unit.files.trees import NOBODY, big_tree, deep_folder, ordinary_user, unix_socket


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


def test_everything_goes_but_lost_and_found(folder: Path) -> None:
    big_tree(folder, 1000)
    unix_socket(folder / "socket")
    (folder / "lost+found").mkdir()
    (folder / "lost+found" / "#12").write_text("x")
    result = CliRunner().invoke(files, ["clear", str(folder)])
    assert result.exit_code == 0
    assert [each.name for each in folder.iterdir()] == ["lost+found"]
    assert (folder / "lost+found" / "#12").exists()
    assert CliRunner().invoke(files, ["clear", str(folder)]).output == "removed 0 files and folders\n"


def test_links_are_removed_and_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("x")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "lost+found").symlink_to(tmp_path / "outside")
    (folder / "inner").mkdir()
    (folder / "inner" / "link").symlink_to(tmp_path / "outside" / "precious")
    clear(str(folder))
    assert list(folder.iterdir()) == []
    assert (tmp_path / "outside" / "precious").exists()


@mutant("files/clearing.py", "elif len(parts) > DEEPEST:", "elif False:")
def test_a_tree_of_any_depth_is_removed_with_few_open_folders(folder: Path) -> None:
    deep_folder(folder, 700)
    (folder / ".to-be-cleared-0").mkdir()
    deep_folder(folder / ".to-be-cleared-0", 200)  # as an interrupted run leaves it
    (folder / ".to-be-cleared-1").write_text("x")
    clear(str(folder))
    assert list(folder.iterdir()) == []


@needs_root("root gives the files to others")
def test_an_ordinary_user_removes_folders_of_his_own_that_he_may_not_write(folder: Path) -> None:
    for inner in (folder / "a" / "b", folder / "c"):
        inner.mkdir(parents=True)
        (inner / "file").write_text("x")
    os.chown(folder, NOBODY, NOBODY)
    for path in (folder / "a" / "b", folder / "a", folder / "c"):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o000)
    for parent in folder.parents:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(0o711)
    with ordinary_user():
        clear(str(folder))
    assert list(folder.iterdir()) == []


@needs_root("root gives the files to others")
def test_a_file_that_cannot_be_removed_is_named(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text("x")
    for parent in folder.parents:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(0o711)
    with ordinary_user(), pytest.raises(FilesError, match="cannot remove 'inner/file': Permission denied"):
        clear(str(folder))
