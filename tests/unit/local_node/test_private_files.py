"""Files that are replaced as a whole, on a disk with room for half of them."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_runtime.local.apiserver import kubeconfig
from gpu_runtime.local.node.hosts import write_in_place
from gpu_runtime.local.node.shim import documents
from gpu_runtime.supervisor.files import write_private

ROOM = 4096


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow beyond `size`: the kernel takes what fits of a write, and refuses the next."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


WRITERS: dict[str, Callable[[Path, str], None]] = {
    "document of a pod": lambda path, text: documents.write(str(path), text),
    "private file": lambda path, text: write_private(path, text.encode()),
    "file that pods have mounted": write_in_place,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_disk_with_room_for_half_a_file_leaves_the_old_one(
    tmp_path: Path, write: Callable[[Path, str], None]
) -> None:
    path = tmp_path / "file"
    write(path, "old")
    before = path.read_bytes()
    with room_for(ROOM), pytest.raises(OSError, match="too large"):
        write(path, "x" * (2 * ROOM))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    write(path, "new")
    assert b"new" in path.read_bytes()


def test_a_token_that_does_not_fit_is_not_there_at_all(tmp_path: Path) -> None:
    with room_for(10), pytest.raises(OSError, match="too large"):
        kubeconfig.ensure_token(tmp_path)
    assert not list(tmp_path.iterdir())
    assert kubeconfig.ensure_token(tmp_path) == kubeconfig.ensure_token(tmp_path)
