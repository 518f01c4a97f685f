"""A container's file system: the machine's own under the pod's layer, volumes, fresh /proc, /sys, /dev, /run, /tmp.

Runs in the container's own mount and pid namespaces. Everything it mounts goes away with the namespace.
"""

from __future__ import annotations

import os
import stat

from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.mounts import FRESH, carried_mounts, inside
from gpu_runtime.local.node.shim.shapes import Launch, Mount

HOST = "/.machine"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_READ_ONLY_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_HIDDEN_PROC = ("acpi", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list")


class CannotMount(Exception):
    """A volume cannot stand where the pod wants it; the message is for the pod's owner."""


def enter(launch: Launch) -> None:
    """Makes the container's root and moves into it; afterwards nothing of the machine's own tree can be written."""
    sandbox, container, pod, layer = launch.sandbox, launch.container, launch.pod, launch.layer
    with open("/proc/self/mountinfo") as table:
        carried = carried_mounts(table, container["masked"])
    root = os.path.join(layer, "root")
    os.makedirs(root, exist_ok=True)
    sys_.mount(root, root, flags=sys_.MS_BIND)
    layers = _Layers(layer, overlay=sandbox["root"] == "overlay", userxattr=sandbox["userxattr"])
    for name in sorted(os.listdir("/")):
        _carry_top_level(name, root, layers)
    for point in carried:
        _carry_directory(point, root + point, layers)
    os.mkdir(root + HOST)
    sys_.pivot_root(root, root + HOST)
    os.chdir("/")
    _fresh_directories(pod)
    _system_files(pod)
    for mount in sorted(container["mounts"], key=lambda mount: mount["target"].count("/")):
        attach(mount, container["masked"])
    _devices(container["devices"])
    for path in container["kept"]:
        _keep(path)
    for path in container["masked"]:
        _mask(path)
    _directory(container["workingDir"])
    sys_.unmount(HOST)
    os.rmdir(HOST)
    if container["readOnlyRoot"]:
        _remount_read_only("/")


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
        _copy_owner(lower, upper)
        options = f"lowerdir={lower},upperdir={upper},workdir={work}" + (",userxattr" if self.userxattr else "")
        try:
            sys_.mount("overlay", target, "overlay", sys_.MS_NOSUID | sys_.MS_NODEV, options)
        except OSError:
            return False
        return True


def _copy_owner(source: str, target: str) -> None:
    about = os.stat(source)
    os.chmod(target, stat.S_IMODE(about.st_mode))
    try:
        os.chown(target, about.st_uid, about.st_gid)
    except OSError:  # an owner that this user namespace does not know
        return


def _carry_top_level(name: str, root: str, layers: _Layers) -> None:
    source, target = f"/{name}", f"{root}/{name}"
    if source in FRESH or source == HOST:
        return
    about = os.lstat(source)
    if stat.S_ISLNK(about.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISDIR(about.st_mode):
        os.mkdir(target)
        if _holds_something(source):
            _carry_directory(source, target, layers)
    elif stat.S_ISREG(about.st_mode):
        _bind_file(source, target)
        _remount_read_only(target)


def _holds_something(path: str) -> bool:
    """Whether the directory is worth a mount, of which each costs a millisecond; one that cannot be read is not."""
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


def _fresh_directories(pod: str) -> None:
    for path in FRESH:
        os.mkdir(path)
    os.chmod("/tmp", 0o1777)  # noqa: S108, S103 (the pod's own /tmp)
    quiet = sys_.MS_NOSUID | sys_.MS_NODEV | sys_.MS_NOEXEC
    _fresh_proc(quiet)
    try:
        sys_.mount("sysfs", "/sys", "sysfs", quiet | sys_.MS_RDONLY)
    except OSError:
        sys_.mount(HOST + "/sys", "/sys", flags=sys_.MS_BIND | sys_.MS_REC)
        _read_only_recursive("/sys")
    sys_.mount("tmpfs", "/dev", "tmpfs", sys_.MS_NOSUID, "mode=755,size=64k")
    for name in _DEVICES:
        _bind_file(f"{HOST}/dev/{name}", f"/dev/{name}")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"/dev/{name}")
    sys_.mount("devpts", "/dev/pts", "devpts", sys_.MS_NOSUID | sys_.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    os.symlink("pts/ptmx", "/dev/ptmx")
    sys_.mount(f"{HOST}{pod}/shm", "/dev/shm", flags=sys_.MS_BIND)  # noqa: S108
    try:
        sys_.mount("mqueue", "/dev/mqueue", "mqueue", quiet)
    except OSError:
        os.rmdir("/dev/mqueue")  # a kernel without message queues


def _fresh_proc(flags: int) -> None:
    try:
        sys_.mount("proc", "/proc", "proc", flags)
    except OSError:
        # In a container whose own /proc is partly covered the kernel allows no second one.
        sys_.mount(HOST + "/proc", "/proc", flags=sys_.MS_BIND | sys_.MS_REC)
    for name in _READ_ONLY_PROC:
        path = f"/proc/{name}"
        if os.path.exists(path):
            sys_.mount(path, path, flags=sys_.MS_BIND)
            _remount_read_only(path)
    for name in _HIDDEN_PROC:
        _mask(f"/proc/{name}")


def _system_files(pod: str) -> None:
    for name in ("hosts", "hostname", "resolv.conf"):
        path = f"/etc/{name}"
        source = f"{HOST}{pod}/etc/{name}"
        try:
            if os.path.islink(path):
                os.unlink(path)
            _bind_file(source, path)
        except OSError as error:
            raise CannotMount(f"{path} cannot be provided: {error}") from error


def attach(mount: Mount, masked: list[str]) -> None:
    """Binds one volume at its mountPath, made in the pod's layer when the machine lacks it.

    A volume of the machine's own files (hostPath: /) shows no more of what is masked than the container's root does.
    """
    target = mount["target"]
    try:
        source = _inside_volume(HOST + mount["source"], mount["subPath"])
        try:
            if stat.S_ISDIR(os.fstat(source).st_mode):
                _directory(target)
            else:
                _directory(os.path.dirname(target))
                _file(target)
            sys_.mount(f"/proc/self/fd/{source}", target, flags=sys_.MS_BIND)
        finally:
            os.close(source)
        if mount["readOnly"]:
            _remount_read_only(target)
        shown = os.path.normpath(os.path.join(mount["source"], mount["subPath"]))
        for path in masked:
            if inside(path, shown):
                _mask(target + path[len(shown.rstrip("/")) :])
    except OSError as error:
        raise CannotMount(f'failed to mount at "{target}": {error.strerror or error}') from error


def _inside_volume(base: str, sub_path: str) -> int:
    """A descriptor of the place in the volume; a symbolic link on the way is refused, as it could lead out."""
    here = os.open(base, os.O_PATH)
    for part in [part for part in sub_path.split("/") if part not in ("", ".")]:
        parent = here
        try:
            if part == "..":
                raise OSError(22, "subPath leaves the volume")
            try:
                here = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
            except FileNotFoundError:
                os.mkdir(part, dir_fd=parent)
                here = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
        finally:
            os.close(parent)
        if stat.S_ISLNK(os.fstat(here).st_mode):
            raise OSError(40, "subPath passes a symbolic link")
    return here


def _directory(path: str) -> None:
    os.makedirs(path, mode=0o755, exist_ok=True)


def _file(path: str) -> None:
    if not os.path.lexists(path):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _bind_file(source: str, target: str) -> None:
    _file(target)
    sys_.mount(source, target, flags=sys_.MS_BIND)


def _devices(paths: list[str]) -> None:
    for path in paths:
        if os.path.exists(HOST + path):
            _directory(os.path.dirname(path))
            _bind_file(HOST + path, path)


def _keep(path: str) -> None:
    """Shows a directory of the machine, read-only, that a fresh /tmp or /run would hide (the interpreter's own)."""
    if any(inside(path, fresh) for fresh in FRESH) and os.path.isdir(HOST + path):
        _directory(path)
        sys_.mount(HOST + path, path, flags=sys_.MS_BIND | sys_.MS_REC)
        _read_only_recursive(path)


def _mask(path: str) -> None:
    if os.path.isdir(path):
        flags = sys_.MS_RDONLY | sys_.MS_NOSUID | sys_.MS_NODEV | sys_.MS_NOEXEC
        sys_.mount("tmpfs", path, "tmpfs", flags, "size=4k,mode=0")
    elif os.path.exists(path):
        sys_.mount(f"{HOST}/dev/null", path, flags=sys_.MS_BIND)
