"""Tries, each in a process of its own, what this machine lets this user do; prints one JSON document."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial

from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.netlink import Netlink

SPACES = {
    "mount": sys_.CLONE_NEWNS,
    "pid": sys_.CLONE_NEWPID,
    "uts": sys_.CLONE_NEWUTS,
    "ipc": sys_.CLONE_NEWIPC,
    "net": sys_.CLONE_NEWNET,
}


def attempt(action: Callable[[], None]) -> str:
    """The error of `action`; empty when it works. The effects of the action end with its process."""
    result, result_writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
        except OSError as error:
            os.write(result_writer, (str(error) or repr(error)).encode())
        except BaseException as error:
            os.write(result_writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(result_writer)
    with os.fdopen(result, "rb") as reader:
        answer = reader.read().decode(errors="replace")
    os.waitpid(child, 0)
    return answer


def enter(flags: int) -> None:
    user, group = os.geteuid(), os.getegid()
    sys_.unshare(flags)
    if flags & sys_.CLONE_NEWUSER:
        sys_.be_root_for(user, group)
    if flags & sys_.CLONE_NEWNS:
        sys_.mount("none", "/", flags=sys_.MS_REC | sys_.MS_PRIVATE)
        sys_.mount("/etc", "/etc", flags=sys_.MS_BIND | sys_.MS_REC)
        _move_by_descriptor()


def _move_by_descriptor() -> None:
    """Tries the calls that keep the paths of a pod's spec inside the pod (Linux 5.6)."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    place = sys_.open_inside(root, "/etc", os.O_DIRECTORY)
    sys_.place_mount(sys_.copy_mount(place, recursive=True), place)


def overlay(flags: int, folder: str, in_memory: bool) -> None:
    """An overlay over the directory that the data directory itself lies in, written to and read back."""
    enter(flags)
    if in_memory:
        sys_.mount("tmpfs", folder, "tmpfs")
    for name in ("upper", "work", "merged"):
        os.mkdir(os.path.join(folder, name))
    lower = "/" + folder.strip("/").split("/")[0] if not in_memory else "/usr"
    os.chdir(folder)
    options = f"lowerdir={lower},upperdir=upper,workdir=work"
    if flags & sys_.CLONE_NEWUSER:
        options += ",userxattr"
    sys_.mount("overlay", "merged", "overlay", 0, options)
    os.listdir("merged")


def bridge(flags: int) -> None:
    enter(flags | sys_.CLONE_NEWNET)
    with Netlink() as netlink:
        netlink.add_bridge("probe0")
        netlink.add_veth("probe1", master=netlink.index("probe0"), peer="probe2", pid=os.getpid())


def main() -> None:
    parent = sys.argv[1]
    base = sys_.CLONE_NEWUSER if attempt(lambda: enter(sys_.CLONE_NEWNS)) else 0
    answer: dict[str, object] = {
        "base": base,
        "refused": {name: attempt(partial(enter, base | flag)) for name, flag in SPACES.items()},
        "bridge": "only root may change the machine's network" if base else attempt(partial(bridge, base)),
    }
    for kind in ("disk", "memory"):
        folder = tempfile.mkdtemp(prefix="probe-", dir=parent)
        try:
            answer[kind] = attempt(partial(overlay, base | sys_.CLONE_NEWNS, folder, kind == "memory"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
