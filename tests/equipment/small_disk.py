"""A small disk for one program: it becomes full soon, and the machine's own disks do not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from equipment.waiting import eventually_sync


@dataclass(frozen=True)
class SmallDisk:
    """A file system in memory at `folder`, in a mount namespace of its own. Needs root."""

    folder: Path
    holder: subprocess.Popen[bytes]

    @property
    def enter(self) -> tuple[str, ...]:
        """The beginning of a command line of a program that sees the disk."""
        return ("nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt")

    def resize(self, size: int) -> None:
        mount = ("mount", "-o", f"remount,size={size}", str(self.folder))
        subprocess.run((*self.enter, *mount), check=True, capture_output=True)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    folder.mkdir(parents=True, exist_ok=True)
    mounted = folder.with_name(f"{folder.name}.mounted")
    script = f'mount -t tmpfs -o size={size} tmpfs "{folder}" && touch "{mounted}" && exec sleep infinity'
    holder = subprocess.Popen(("unshare", "--mount", "--propagation", "private", "sh", "-c", script))
    try:
        eventually_sync(mounted.exists, what="the small disk is mounted")
        yield SmallDisk(folder, holder)
    finally:
        holder.kill()
        holder.wait()
