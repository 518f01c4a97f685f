"""Memory and process limits of containers, where this machine's cgroups can be written."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import msgspec

from gpu_runtime.local.node.recorded import recorded
from gpu_runtime.supervisor.files import write_private

MOUNT = Path("/sys/fs/cgroup")
_LIMITS = {"memory": ("memory.limit_in_bytes", "memory.max"), "pids": ("pids.max", "pids.max")}


class Cgroups:
    """One folder a container below one folder of ours in each controller's hierarchy. Empty `bases`: no limits here."""

    def __init__(self, bases: dict[str, Path], *, unified: bool) -> None:
        self.bases, self.unified = bases, unified

    @property
    def limits(self) -> list[str]:
        return sorted(self.bases)

    def create(self, pod: str, container: str, *, memory: int, processes: int) -> list[str]:
        """Makes the container's folders with their limits; returns the files that a process joins them by."""
        wanted = {"memory": memory, "pids": processes}
        joined: dict[str, None] = {}
        for controller, base in self.bases.items():
            folder = base / pod / container
            folder.mkdir(parents=True, exist_ok=True)
            if self.unified:
                _delegate(base)
                _delegate(base / pod)
            if wanted[controller]:
                (folder / _LIMITS[controller][self.unified]).write_text(str(wanted[controller]))
            joined[str(folder / "cgroup.procs")] = None
        return list(joined)

    def remove(self, pod: str) -> None:
        """Removes a pod's folders; its processes have ended already, the kernel may need a moment to notice."""
        for base in set(self.bases.values()):
            _remove_tree(base / pod)

    def close(self) -> None:
        for base in set(self.bases.values()):
            _remove_tree(base)


def open_cgroups(name: str, record: Path) -> Cgroups:
    """Creates our folders in every hierarchy that can be written, so that limits are tried before they are promised.

    Records their paths: an agent that runs in another cgroup must find the folders of the pods that it adopts.
    """
    known = recorded(record, _Recorded)
    if known and known.bases and all(Path(base).is_dir() for base in known.bases.values()):
        return Cgroups({key: Path(base) for key, base in known.bases.items()}, unified=known.unified)
    found = _open_unified(name) if (MOUNT / "cgroup.controllers").exists() else _open_separate(name)
    bases = {key: str(base) for key, base in found.bases.items()}
    write_private(record, msgspec.json.encode(_Recorded(bases, found.unified)))
    return found


class _Recorded(msgspec.Struct, frozen=True):
    bases: dict[str, str]
    unified: bool


def _open_unified(name: str) -> Cgroups:
    base = MOUNT / name
    try:
        base.mkdir(exist_ok=True)
        _delegate(MOUNT)
        controllers = (base / "cgroup.controllers").read_text().split()
    except OSError:
        with contextlib.suppress(OSError):
            base.rmdir()
        return Cgroups({}, unified=True)
    return Cgroups({controller: base for controller in _LIMITS if controller in controllers}, unified=True)


def _open_separate(name: str) -> Cgroups:
    bases = {}
    own = _own_paths()
    for controller in _LIMITS:
        base = MOUNT / controller / own.get(controller, "").lstrip("/") / name
        with contextlib.suppress(OSError):
            base.mkdir(exist_ok=True)
            bases[controller] = base
    return Cgroups(bases, unified=False)


def _own_paths() -> dict[str, str]:
    paths = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _delegate(folder: Path) -> None:
    (folder / "cgroup.subtree_control").write_text("+memory +pids")


def _remove_tree(folder: Path) -> None:
    if not folder.is_dir():
        return
    for child in folder.iterdir():
        if child.is_dir():
            _remove_tree(child)
    for _ in range(100):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
        else:
            return
