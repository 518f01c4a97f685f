"""The filter of system calls, asked by a process that put itself under it."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from pathlib import Path

import pytest

from gpu_runtime.local.node.shim import seccomp, syscalls

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of the calls are those of x86-64")
UNISTD = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


def errors_of(*calls: tuple[int, ...]) -> list[int]:
    """The error of each call in a child under the filter, 0 for one that worked."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
            seccomp.confine()
            libc = ctypes.CDLL(None, use_errno=True)
            for call in calls:
                failed = libc.syscall(*map(ctypes.c_long, call)) < 0
                os.write(tell, b"%d " % (ctypes.get_errno() if failed else 0))
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(told) as reader:
        answer = reader.read()
    os.waitpid(child, 0)
    return [int(word) for word in answer.split()]


def test_calls_about_the_machine_are_refused_and_others_are_not() -> None:
    keyctl, unshare, getpid, keyring = 250, 272, 39, -3
    assert errors_of((keyctl, 0, keyring, 0), (unshare, 0), (getpid,)) == [errno.EPERM, errno.EPERM, 0]


def test_a_new_namespace_is_refused_by_every_call_that_makes_one() -> None:
    clone, clone3, user_namespace, child_signal = 56, 435, 0x10000000, 17
    made = errors_of((clone, user_namespace | child_signal, 0, 0, 0, 0), (clone3, 0, 0))
    assert made == [errno.EPERM, errno.ENOSYS]


def test_the_same_calls_by_other_numbers_are_unknown() -> None:
    assert errors_of((0x40000000 | 39,)) == [errno.ENOSYS]


@pytest.mark.skipif(not UNISTD.exists(), reason="no kernel headers")
def test_each_number_is_that_of_its_name() -> None:
    lines = [line.split() for line in UNISTD.read_text().splitlines() if line.startswith("#define __NR_")]
    known = {words[1].removeprefix("__NR_"): int(words[2]) for words in lines}
    ours = {name.replace("sysctl", "_sysctl"): number for name, number in seccomp._X86_64.items()}
    ours |= seccomp._EVERYWHERE
    assert {name: number for name, number in ours.items() if known.get(name, number) != number} == {}
    generic = UNISTD.parents[2] / "asm-generic" / "unistd.h"
    assert generic.exists()
    defined = [line.split() for line in generic.read_text().splitlines() if line.startswith("#define __NR")]
    numbers = {words[1].split("_NR", 1)[1].lstrip("3264_"): words[2] for words in defined}
    wrong = {name: number for name, number in seccomp._AARCH64.items() if numbers.get(name, str(number)) != str(number)}
    assert wrong == {}
