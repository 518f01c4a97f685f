"""What a container is given of the machine, taken while the machine's tree can still be reached.

Each thing is held as a mount without a place. Once the machine's root has been let go of, these are all that is left of
it, and a path out of a pod's spec cannot name more.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.mounts import FRESH, inside
from gpu_runtime.local.node.shim.places import named, opened
from gpu_runtime.local.node.shim.shapes import Container, Mount

SYSTEM_FILES = ("hosts", "hostname", "resolv.conf")


class CannotMount(Exception):
    """A volume cannot stand where the pod wants it; the message is for the pod's owner."""


class HeldVolume(NamedTuple):
    """One volume's mount: `shown` is where its root really lies on the machine."""

    mount: Mount
    tree: int
    is_directory: bool
    shown: str


class Held(NamedTuple):
    """Mounts by the place that each goes to."""

    volumes: list[HeldVolume]
    system_files: dict[str, int]
    devices: dict[str, int]
    directories: dict[str, int]
    nothing: int


def hold(container: Container, pod: str) -> Held:
    """Opens everything; the descriptors end with the process or with `release`."""
    return Held(
        volumes=[_volume(mount, container["masked"]) for mount in container["mounts"]],
        system_files={f"/etc/{name}": _copy(os.path.join(pod, "etc", name)) for name in SYSTEM_FILES},
        devices={path: _copy(path) for path in container["devices"] if os.path.exists(path)},
        directories={path: _copy(path, recursive=True) for path in container["kept"] if _is_hidden(path)},
        nothing=_copy("/dev/null"),
    )


def release(held: Held) -> None:
    """Closes the descriptors: none of them may reach the container's program."""
    volumes = [volume.tree for volume in held.volumes]
    others = [*held.system_files.values(), *held.devices.values(), *held.directories.values(), held.nothing]
    for descriptor in volumes + others:
        os.close(descriptor)


def _is_hidden(path: str) -> bool:
    """Whether a fresh /tmp or /run would hide this directory of the machine (the interpreter's own)."""
    return any(inside(path, fresh) for fresh in FRESH) and os.path.isdir(path)


def _copy(path: str, *, recursive: bool = False) -> int:
    with opened(os.open(path, os.O_PATH | os.O_CLOEXEC)) as source:
        return sys_.copy_mount(source, recursive=recursive)


def _volume(mount: Mount, masked: list[str]) -> HeldVolume:
    try:
        with opened(_inside_volume(mount["source"], mount["subPath"])) as source:
            is_directory, shown = stat.S_ISDIR(os.fstat(source).st_mode), os.readlink(named(source))
            # Where it really is, which a link may have changed since it was asked for.
            if mount["ofMachine"] and any(inside(shown, path) for path in masked):
                raise OSError(errno.EACCES, f"{mount['source']} is not shown to pods")
            return HeldVolume(mount, sys_.copy_mount(source), is_directory, shown)
    except OSError as error:
        raise CannotMount(f'failed to mount at "{mount["target"]}": {error.strerror or error}') from error


def _inside_volume(base: str, sub_path: str) -> int:
    """A descriptor of the place in the volume; a symbolic link on the way is refused, as it could lead out."""
    here = os.open(base, os.O_PATH | os.O_CLOEXEC)
    for part in [part for part in sub_path.split("/") if part not in ("", ".")]:
        with opened(here) as parent:
            if part == "..":
                raise OSError(22, "subPath leaves the volume")
            try:
                here = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            except FileNotFoundError:
                os.mkdir(part, dir_fd=parent)
                here = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        if stat.S_ISLNK(os.fstat(here).st_mode):
            raise OSError(40, "subPath passes a symbolic link")
    return here
