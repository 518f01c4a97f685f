"""Removes directories in which pods have written."""

from __future__ import annotations

import contextlib
import shutil
import stat
from pathlib import Path

REMOVALS = 100  # one for each level at which a directory was closed to its owner


def remove_tree(path: Path) -> None:
    """Removes a directory in which a pod has written, whatever modes it left there."""

    def open_up(_: object, name: str, __: object) -> None:
        # Only an ordinary user comes here: overlay's work directories and a pod's own may be closed to their owner.
        for closed in (Path(name).parent, Path(name)):
            if not closed.is_symlink():
                with contextlib.suppress(OSError):
                    closed.chmod(stat.S_IRWXU)

    for _ in range(REMOVALS):
        shutil.rmtree(path, onerror=open_up)
        if not path.exists():
            return
