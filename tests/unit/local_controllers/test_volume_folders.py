"""What is left of a volume's folder when its volume goes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpu_runtime.local.controllers.volumes.provisioner import remove_folder

USER = 29_461


def removed_as_ordinary_user(path: Path) -> bool:
    """For root a closed directory is open; the child is somebody else."""
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(USER)
                os.setuid(USER)
            remove_folder(path)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)
    found = tmp_path / "volumes" / "pvc-1"
    found.mkdir(parents=True)
    return found


def test_a_volume_with_closed_directories_goes_with_everything_in_it(folder: Path) -> None:
    deep = folder / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "file").write_text("")
    every = [folder.parent, folder, *folder.rglob("*")]
    for each in every:
        if os.getuid() == 0:
            shutil.chown(each, USER, USER)
    for each in (deep, deep.parent, deep.parent.parent):
        each.chmod(0)
    assert removed_as_ordinary_user(folder)
    assert not folder.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs files of two users")
def test_a_folder_that_cannot_be_removed_is_not_forgotten(folder: Path) -> None:
    assert not removed_as_ordinary_user(folder)
    assert folder.exists()
