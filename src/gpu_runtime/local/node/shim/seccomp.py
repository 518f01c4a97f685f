"""Refuses system calls of a container's programs: those that container runtimes refuse by default.

They are about the machine as a whole (modules, clocks, mounts, namespaces, swap, reboot), or have been ways out of
containers before (keys, BPF, performance events, user faults, rings). All others are allowed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import NamedTuple

from gpu_runtime.local.node.shim import syscalls as sys_

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # where the kernel puts them
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NAMESPACES = 0x7E020000  # every CLONE_NEW flag of clone
_OTHER_ABI = 0x40000000  # x32: the same calls under other numbers

# Since Linux 5.1 new calls have one number everywhere.
_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442,
    "quotactl_fd": 443,
}  # fmt: skip
_X86_64 = {
    "acct": 163, "add_key": 248, "bpf": 321, "clock_adjtime": 305, "clock_settime": 227, "create_module": 174,
    "delete_module": 176, "fanotify_init": 300, "finit_module": 313, "get_kernel_syms": 177, "init_module": 175,
    "ioperm": 173, "iopl": 172, "kcmp": 312, "kexec_file_load": 320, "kexec_load": 246, "keyctl": 250,
    "lookup_dcookie": 212, "mount": 165, "nfsservctl": 180, "open_by_handle_at": 304, "perf_event_open": 298,
    "pivot_root": 155, "query_module": 178, "quotactl": 179, "reboot": 169, "request_key": 249, "setns": 308,
    "settimeofday": 164, "swapoff": 168, "swapon": 167, "sysctl": 156, "sysfs": 139, "syslog": 103, "umount2": 166,
    "unshare": 272, "uselib": 134, "userfaultfd": 323, "ustat": 136, "vhangup": 153,
}  # fmt: skip
_AARCH64 = {
    "acct": 89, "add_key": 217, "bpf": 280, "clock_adjtime": 266, "clock_settime": 112, "delete_module": 106,
    "fanotify_init": 262, "finit_module": 273, "init_module": 105, "kcmp": 272, "kexec_file_load": 294,
    "kexec_load": 104, "keyctl": 219, "lookup_dcookie": 18, "mount": 40, "nfsservctl": 42, "open_by_handle_at": 265,
    "perf_event_open": 241, "pivot_root": 41, "quotactl": 60, "reboot": 142, "request_key": 218, "setns": 268,
    "settimeofday": 170, "swapoff": 225, "swapon": 224, "syslog": 116, "umount2": 39, "unshare": 97,
    "userfaultfd": 282, "vhangup": 58,
}  # fmt: skip
_CLONE3 = 435  # its flags lie in memory, where a filter cannot look: programs fall back to clone


class _Machine(NamedTuple):
    """The numbers of the system calls on one kind of processor."""

    architecture: int
    clone: int
    refused: dict[str, int]


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 56, _X86_64 | _EVERYWHERE),
    "aarch64": _Machine(0xC00000B7, 220, _AARCH64 | _EVERYWHERE),
}


def confine() -> None:
    """Filters the calls of this process and of all that it starts, for good. Does nothing on an unknown processor."""
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        return
    code = program(machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header, len(header))
    sys_.prctl_pointer(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(pointer))


def program(machine: _Machine) -> bytes:
    """The filter as the kernel reads it. Pure."""
    numbers = sorted(machine.refused.values())
    allow = _step(_RETURN, _ALLOW)
    refuse = _step(_RETURN, _REFUSE | errno.EPERM)
    unknown = _step(_RETURN, _REFUSE | errno.ENOSYS)
    steps = [
        _step(_LOAD, _ARCHITECTURE), _step(_JUMP_EQUAL, machine.architecture, yes=1), unknown,
        _step(_LOAD, _NUMBER), _step(_JUMP_AT_LEAST, _OTHER_ABI, no=1), unknown,
        _step(_JUMP_EQUAL, _CLONE3, no=1), unknown,
    ]  # fmt: skip
    for number in numbers:
        steps += [_step(_JUMP_EQUAL, number, no=1), refuse]
    steps += [
        _step(_JUMP_EQUAL, machine.clone, yes=1), allow,
        _step(_LOAD, _FIRST_ARGUMENT), _step(_JUMP_ANY_BIT, _NAMESPACES, no=1), refuse, allow,
    ]  # fmt: skip
    return b"".join(steps)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)
