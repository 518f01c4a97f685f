"""The Linux calls that Python 3.11 has no name for; their OSErrors name the path or the operation."""

from __future__ import annotations

import ctypes
import errno
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21
MNT_DETACH = 2

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_FROM_AND_TO_DESCRIPTORS = 0x04 | 0x40
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

# The set that container runtimes give by default, without mknod (a device node reaches the machine's disks: there is no
# device cgroup behind us) and without audit_write.
KEPT_CAPABILITIES = frozenset(
    {
        0,  # chown
        1,  # dac_override
        3,  # fowner
        4,  # fsetid
        5,  # kill
        6,  # setgid
        7,  # setuid
        8,  # setpcap
        10,  # net_bind_service
        13,  # net_raw
        18,  # sys_chroot
        31,  # setfcap
    }
)
LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), f"unshare {flags:#x}")


def setns(fd: int, kind: int) -> None:
    _checked(_libc.setns(fd, kind), f"setns {kind:#x}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None
    )
    _checked(result, f"mount {target}")


def mount_read_only_recursive(target: str) -> None:
    """Makes `target` and everything mounted below it read-only (Linux 5.12)."""
    attributes = (ctypes.c_uint64 * 4)(1, 0, 0, 0)  # MOUNT_ATTR_RDONLY, nothing cleared, propagation, no user namespace
    result = _libc.syscall(
        ctypes.c_long(442),
        ctypes.c_int(_AT_FDCWD),
        target.encode(),
        ctypes.c_uint(_AT_RECURSIVE),
        attributes,
        ctypes.c_size_t(32),
    )
    _checked(result, f"mount_setattr {target}")


def copy_mount(source: int, *, recursive: bool = False) -> int:
    """A detached bind mount of what `source` is open on, as a descriptor (Linux 5.2)."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    result = _libc.syscall(ctypes.c_long(428), ctypes.c_int(source), b"", ctypes.c_uint(flags))
    return _checked(result, "open_tree")


def place_mount(tree: int, target: int) -> None:
    """Attaches a mount that `copy_mount` returned over what `target` is open on."""
    flags = ctypes.c_uint(_MOVE_MOUNT_FROM_AND_TO_DESCRIPTORS)
    result = _libc.syscall(ctypes.c_long(429), ctypes.c_int(tree), b"", ctypes.c_int(target), b"", flags)
    _checked(result, "move_mount")


def open_inside(root: int, path: str, flags: int = 0) -> int:
    """Opens `path` as a process whose root is `root` would; refuses links of /proc (Linux 5.6)."""
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC | flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    result = _libc.syscall(ctypes.c_long(437), ctypes.c_int(root), os.fsencode(path), how, ctypes.c_size_t(24))
    return _checked(result, path)


def unmount(target: str) -> None:
    _checked(_libc.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def pivot_root(new: str, put_old: str) -> None:
    number = 41 if os.uname().machine == "aarch64" else 155
    _checked(_libc.syscall(ctypes.c_long(number), new.encode(), put_old.encode()), f"pivot_root {new}")


def prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def prctl_pointer(option: int, value: int, address: int) -> None:
    """Calls prctl with a pointer as its second argument."""
    zero = ctypes.c_ulong(0)
    result = _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_void_p(address), zero, zero)
    _checked(result, f"prctl {option}")


def set_process_name(name: str) -> None:
    """Sets what `ps -o comm` shows; at most 15 bytes count."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    _checked(_libc.prctl(PR_SET_NAME, buffer, 0, 0, 0), "prctl name")


def identity() -> dict[str, object]:
    """Identifies this process: a pid is reused, but never with the same start time in the same boot."""
    with open("/proc/self/stat") as about, open("/proc/sys/kernel/random/boot_id") as boot:
        started = about.read().rpartition(")")[2].split()[19]
        return {"pid": os.getpid(), "started": started, "boot": boot.read().strip()}


def sethostname(name: str) -> None:
    raw = name.encode()
    _checked(_libc.sethostname(raw, len(raw)), "sethostname")


def drop_capabilities(kept: frozenset[int] = KEPT_CAPABILITIES) -> None:
    """Limits the programs that this process executes to the capabilities `kept`, even as root."""
    for capability in range(LAST_CAPABILITY + 1):
        if capability in kept:
            continue
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EPERM):  # past the kernel's last one; or we have none to give up
                return
            raise


def be_root_for(user: int, group: int) -> None:
    """Call it in a new user namespace: maps its root to this user outside."""
    for path, content in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{path}", "w") as file:
            file.write(content)
