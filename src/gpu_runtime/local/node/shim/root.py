"""A container's file system: the machine's own under the pod's layer, volumes, fresh /proc, /sys, /dev, /run, /tmp.

Runs in the container's own mount and pid namespaces. Everything it mounts goes away with the namespace.
What the pod's spec names is made after the machine's root is out of reach, and by descriptors inside the new root.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from gpu_runtime.local.node.shim import places
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.held import CannotMount, Held, HeldVolume, copy_owner, hold, release
from gpu_runtime.local.node.shim.mounts import FRESH, carried_mounts, inside
from gpu_runtime.local.node.shim.places import named, opened
from gpu_runtime.local.node.shim.shapes import Container, Launch

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_READ_ONLY_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_HIDDEN_PROC = ("acpi", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list")


def enter(launch: Launch) -> None:
    """Makes the container's root and moves into it; afterwards nothing of the machine's own tree can be written."""
    sandbox, container, pod, layer = launch.sandbox, launch.container, launch.pod, launch.layer
    with open("/proc/self/mountinfo") as table:
        carried = carried_mounts(table, [*container["homes"], *container["masked"]])
    root = os.path.join(layer, "root")
    os.makedirs(root, exist_ok=True)
    sys_.mount(root, root, flags=sys_.MS_BIND)
    layers = _Layers(layer, overlay=sandbox["root"] == "overlay", userxattr=sandbox["userxattr"])
    for name in sorted(os.listdir("/")):
        _carry_top_level(name, root, layers, container["homes"])
    for point in carried:
        _carry_directory(point, root + point, layers)
    # Do this before the machine's own are gone: a user namespace may mount /proc and /sys only while it sees others.
    _fresh_directories(root, pod)
    held = hold(container, pod, layer)
    _leave_machine_for(root)
    with opened(os.open("/", os.O_PATH | os.O_CLOEXEC)) as here:
        _furnish(here, container, held)
    release(held)
    if container["readOnlyRoot"]:
        _remount_read_only("/")


def _leave_machine_for(root: str) -> None:
    """Both roots are mounted at one place for a moment, so that the old one has no path inside the new one."""
    os.chdir(root)
    sys_.pivot_root(".", ".")
    sys_.unmount(".")
    os.chdir("/")


def _furnish(root: int, container: Container, held: Held) -> None:
    for path, tree in held.homes.items():
        _place_over(root, path, tree)
    for each in sorted(container["shown"], key=lambda each: each["path"].count("/")):
        _show(root, each["path"], held.shown[each["path"]], writable=each["writable"])
    for path, tree in held.system_files.items():
        _system_file(root, path, tree)
    for volume in sorted(held.volumes, key=lambda volume: volume.mount["target"].count("/")):
        _attach(root, volume, [*container["homes"], *container["masked"]], held.nothing)
    for path, tree in held.devices.items():
        with opened(places.file(root, path)) as place:
            sys_.place_mount(tree, place)
    for path, tree in held.kept.items():
        with suppress(OSError):  # a read-only volume stands there, and the pod does without the interpreter
            _show(root, path, tree, writable=False)
    for path in container["masked"]:
        _mask(root, path, held.nothing)
    os.close(places.directory(root, container["workingDir"]))


def _place_over(root: int, path: str, tree: int) -> None:
    place = places.existing(root, path)
    if place is not None:
        with opened(place):
            sys_.place_mount(tree, place)


def _show(root: int, path: str, tree: int, *, writable: bool) -> None:
    with opened(places.directory(root, path)) as place:
        sys_.place_mount(tree, place)
    if not writable:
        _read_only_recursive(named(tree))


class _Layers:
    """Gives each carried directory its own upper and work directory below the container's layer."""

    def __init__(self, path: str, *, overlay: bool, userxattr: bool) -> None:
        self.path, self.overlay, self.userxattr, self.count = path, overlay, userxattr, 0

    def mount(self, lower: str, target: str) -> bool:
        if not self.overlay or any(character in lower for character in ",:\\"):
            return False
        self.count += 1
        # Relative paths, because a comma in the data directory's own name would end the option.
        os.chdir(self.path)
        upper, work = f"upper{self.count}", f"work{self.count}"
        os.mkdir(upper)
        os.mkdir(work)
        copy_owner(lower, upper)
        options = f"lowerdir={lower},upperdir={upper},workdir={work}" + (",userxattr" if self.userxattr else "")
        try:
            sys_.mount("overlay", target, "overlay", sys_.MS_NOSUID | sys_.MS_NODEV, options)
        except OSError:
            return False
        return True


def _carry_top_level(name: str, root: str, layers: _Layers, homes: list[str]) -> None:
    source, target = f"/{name}", f"{root}/{name}"
    if source in FRESH:
        return
    about = os.lstat(source)
    if stat.S_ISLNK(about.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISDIR(about.st_mode):
        os.mkdir(target)
        if source not in homes and _holds_something(source):
            _carry_directory(source, target, layers)
    elif stat.S_ISREG(about.st_mode):
        _bind_file(source, target)
        _remount_read_only(target)


def _holds_something(path: str) -> bool:
    """Whether the directory is worth a mount, which costs a millisecond: not if it is empty or cannot be read."""
    try:
        return bool(os.listdir(path))
    except OSError:
        return False


def _carry_directory(source: str, target: str, layers: _Layers) -> None:
    if not os.path.isdir(source):
        if os.path.isfile(target):
            sys_.mount(source, target, flags=sys_.MS_BIND)
            _remount_read_only(target)
        return
    if not os.path.isdir(target) or layers.mount(source, target):
        return
    # Recursive: a user namespace may not show what its owner's mounts cover.
    sys_.mount(source, target, flags=sys_.MS_BIND | sys_.MS_REC)
    _read_only_recursive(target)


def _read_only_recursive(target: str) -> None:
    try:
        sys_.mount_read_only_recursive(target)
    except OSError:
        _remount_read_only(target)


def _remount_read_only(target: str) -> None:
    # The flags that are already set must be repeated: a user namespace may not clear them.
    flags = os.statvfs(target).f_flag
    kept = flags & (sys_.MS_NOSUID | sys_.MS_NODEV | sys_.MS_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
    if flags & os.ST_RELATIME:
        kept |= sys_.MS_RELATIME
    sys_.mount("none", target, flags=sys_.MS_REMOUNT | sys_.MS_BIND | sys_.MS_RDONLY | kept)


def _fresh_directories(root: str, pod: str) -> None:
    for path in FRESH:
        os.mkdir(root + path)
    os.chmod(f"{root}/tmp", 0o1777)  # noqa: S103, S108 (the pod's own /tmp)
    quiet = sys_.MS_NOSUID | sys_.MS_NODEV | sys_.MS_NOEXEC
    _fresh_proc(f"{root}/proc", quiet)
    try:
        sys_.mount("sysfs", f"{root}/sys", "sysfs", quiet | sys_.MS_RDONLY)
    except OSError:
        sys_.mount("/sys", f"{root}/sys", flags=sys_.MS_BIND | sys_.MS_REC)
        _read_only_recursive(f"{root}/sys")
    _fresh_dev(f"{root}/dev", pod, quiet)


def _fresh_dev(dev: str, pod: str, quiet: int) -> None:
    sys_.mount("tmpfs", dev, "tmpfs", sys_.MS_NOSUID, "mode=755,size=64k")
    for name in _DEVICES:
        _bind_file(f"/dev/{name}", f"{dev}/{name}")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{dev}/{name}")
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"{dev}/{name}")
    sys_.mount("devpts", f"{dev}/pts", "devpts", sys_.MS_NOSUID | sys_.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    os.symlink("pts/ptmx", f"{dev}/ptmx")
    sys_.mount(os.path.join(pod, "shm"), f"{dev}/shm", flags=sys_.MS_BIND)
    try:
        sys_.mount("mqueue", f"{dev}/mqueue", "mqueue", quiet)
    except OSError:
        os.rmdir(f"{dev}/mqueue")  # a kernel without message queues


def _fresh_proc(proc: str, flags: int) -> None:
    try:
        sys_.mount("proc", proc, "proc", flags)
    except OSError:
        # In a container whose own /proc is partly covered the kernel allows no second one.
        sys_.mount("/proc", proc, flags=sys_.MS_BIND | sys_.MS_REC)
    for name in _READ_ONLY_PROC:
        path = f"{proc}/{name}"
        if os.path.exists(path):
            sys_.mount(path, path, flags=sys_.MS_BIND)
            _remount_read_only(path)
    for name in _HIDDEN_PROC:
        path = f"{proc}/{name}"
        if os.path.isdir(path):
            _cover(path)
        elif os.path.exists(path):
            sys_.mount("/dev/null", path, flags=sys_.MS_BIND)


def _system_file(root: int, path: str, tree: int) -> None:
    folder, name = os.path.split(path)
    try:
        with opened(places.directory(root, folder)) as above:
            if os.path.islink(f"{named(above)}/{name}"):
                os.unlink(name, dir_fd=above)
        with opened(places.file(root, path)) as place:
            sys_.place_mount(tree, place)
    except OSError as error:
        raise CannotMount(f"{path} cannot be provided: {error}") from error


def _attach(root: int, volume: HeldVolume, masked: list[str], nothing: int) -> None:
    """Places one volume at its mountPath, made in the pod's layer when the machine lacks it.

    A volume of the machine's own files (hostPath: /) shows no more of what is masked than the container's root does.
    """
    target = volume.mount["target"]
    try:
        make = places.directory if volume.is_directory else places.file
        with opened(make(root, target)) as place:
            places.refuse_proc(root, place)
            sys_.place_mount(volume.tree, place)
        if volume.mount["readOnly"]:
            _remount_read_only(named(volume.tree))
        for path in masked:
            if inside(path, volume.shown):
                _mask(volume.tree, path[len(volume.shown.rstrip("/")) :] or "/", nothing)
    except OSError as error:
        raise CannotMount(f'failed to mount at "{target}": {error.strerror or error}') from error


def _bind_file(source: str, target: str) -> None:
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    sys_.mount(source, target, flags=sys_.MS_BIND)


def _mask(root: int, path: str, nothing: int) -> None:
    """Hides what is at `path` below `root`, if anything is."""
    place = places.existing(root, path)
    if place is None:
        return
    with opened(place):
        if stat.S_ISDIR(os.fstat(place).st_mode):
            _cover(named(place))
        else:
            with opened(sys_.copy_mount(nothing)) as nothing_more:
                sys_.place_mount(nothing_more, place)


def _cover(path: str) -> None:
    flags = sys_.MS_RDONLY | sys_.MS_NOSUID | sys_.MS_NODEV | sys_.MS_NOEXEC
    sys_.mount("tmpfs", path, "tmpfs", flags, "size=4k,mode=0")
