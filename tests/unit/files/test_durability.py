from __future__ import annotations

import errno
from pathlib import Path

import pytest

from equipment.mutation import mutant
from gpu_runtime.files import copying
from gpu_runtime.files.copying import copy_tree
from gpu_runtime.files.durability import sync_file_system
from gpu_runtime.files.failure import FilesError
from gpu_runtime.files.reporting import Reporter


@mutant("files/durability.py", "if _libc.syncfs(folder) != 0:", "if _libc.syncfs(folder) > 0:")
def test_a_file_system_that_cannot_be_synced_is_an_error() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync_file_system(-1)


@mutant("files/copying.py", "            sync_file_system(self._target)", "            pass")
def test_a_copy_that_does_not_reach_the_disk_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(copying, "sync_file_system", broken)
    source, target, said = tmp_path / "source", tmp_path / "target", list[str]()
    source.mkdir()
    target.mkdir()
    with pytest.raises(FilesError, match="write to disk"):
        copy_tree(str(source), str(target), clear=False, reporter=Reporter(said.append))
    assert not any(line.startswith("done") for line in said)
