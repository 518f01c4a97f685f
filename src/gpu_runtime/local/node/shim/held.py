"""The mounts that a container gets from the machine, opened while the machine's tree can still be reached.

Each is a detached mount. Once the machine's root is unmounted, nothing else of the machine is left that a path in a
pod's spec could name.
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

_PASS = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
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
    """Detached mounts by the path where each will be attached."""

    volumes: list[HeldVolume]
    system_files: dict[str, int]
    devices: dict[str, int]
    shown: dict[str, int]
    kept: dict[str, int]
    homes: dict[str, int]
    nothing: int


def hold(container: Container, pod: str, layer: str) -> Held:
    """Opens everything; the descriptors end with the process or with `release`."""
    return Held(
        volumes=[_volume(mount, container) for mount in container["mounts"]],
        system_files={f"/etc/{name}": _copy(os.path.join(pod, "etc", name)) for name in SYSTEM_FILES},
        devices={path: _copy(path) for path in container["devices"] if os.path.exists(path)},
        shown={each["path"]: _copy(each["path"], recursive=True) for each in container["shown"]},
        kept={path: _copy(path, recursive=True) for path in container["kept"] if _is_lost(path, container["homes"])},
        homes={path: _copy(_empty_home(path, layer)) for path in container["homes"] if os.path.isdir(path)},
        nothing=_copy("/dev/null"),
    )


def release(held: Held) -> None:
    """Closes the descriptors: none of them may reach the container's program."""
    volumes = [volume.tree for volume in held.volumes]
    others = [held.system_files, held.devices, held.shown, held.kept, held.homes]
    for descriptor in [*volumes, *(tree for each in others for tree in each.values()), held.nothing]:
        os.close(descriptor)


def _is_lost(path: str, homes: list[str]) -> bool:
    """Whether a fresh /tmp or an empty home would hide this directory of the machine (the interpreter's own).

    A directory that contains a home stays hidden: it would show the home.
    """
    lost = any(inside(path, place) for place in (*FRESH, *homes))
    return lost and os.path.isdir(path) and not any(inside(home, path) for home in homes)


def _is_hidden(path: str, container: Container) -> bool:
    if any(inside(path, place) for place in container["masked"]):
        return True
    at_home = any(inside(path, home) for home in container["homes"])
    return at_home and not any(inside(path, each["path"]) for each in container["shown"])


def _empty_home(path: str, layer: str) -> str:
    """A directory of the pod in place of the home `path`. In place of /home it has an empty directory for each home.

    It has the owner and mode of the real one. Everybody may traverse it, to reach what is shown inside.
    """
    made = os.path.join(layer, "home-" + path.strip("/").replace("/", "-"))
    os.mkdir(made)
    copy_owner(path, made)
    os.chmod(made, stat.S_IMODE(os.stat(made).st_mode) | _PASS)
    if path == "/home":
        for name in os.listdir(path):
            inner = os.path.join(path, name)
            if os.path.isdir(inner) and not os.path.islink(inner):
                os.mkdir(os.path.join(made, name))
                copy_owner(inner, os.path.join(made, name))
    return made


def copy_owner(source: str, target: str) -> None:
    about = os.stat(source)
    os.chmod(target, stat.S_IMODE(about.st_mode))
    try:
        os.chown(target, about.st_uid, about.st_gid)
    except OSError:  # an owner that this user namespace does not know
        return


def _copy(path: str, *, recursive: bool = False) -> int:
    with opened(os.open(path, os.O_PATH | os.O_CLOEXEC)) as source:
        return sys_.copy_mount(source, recursive=recursive)


def _volume(mount: Mount, container: Container) -> HeldVolume:
    try:
        with opened(_inside_volume(mount["source"], mount["subPath"])) as source:
            is_directory, shown = stat.S_ISDIR(os.fstat(source).st_mode), os.readlink(named(source))
            # Check the real path: a link may have changed since the pod was admitted.
            if mount["ofMachine"] and _is_hidden(shown, container):
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
