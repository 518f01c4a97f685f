"""Gives a copy the owner, extended attributes, permissions and times of its original."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from typing import NamedTuple

REFUSED = (errno.EPERM, errno.EINVAL)  # EINVAL: the user namespace has no such user
NOT_KEPT = (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENODATA)
OF_THE_MACHINE = "security.selinux"  # the label that the machine gives its own files

Losses = Counter[str]
"""What could not be kept, and for how many files."""

OWNER_LOST = "owner or group"
ATTRIBUTE_LOST = "extended attributes"


class Named(NamedTuple):
    """An entry that is not opened: a link or a FIFO in an open folder."""

    folder: int
    name: str


def keep_attributes(original: int, copy: int, was: os.stat_result, losses: Losses) -> None:
    """Of an open file or folder. The owner comes first: a change of it clears setuid and capabilities."""
    mode = _mode_with(was, _keep_owner(copy, was, losses))
    _keep_extended(original, copy, losses)
    os.fchmod(copy, mode)
    os.utime(copy, ns=(was.st_atime_ns, was.st_mtime_ns))


def keep_attributes_of(copy: Named, was: os.stat_result, losses: Losses) -> None:
    """Of a link or a FIFO."""
    mode = _mode_with(was, _keep_owner(copy, was, losses))
    if not stat.S_ISLNK(was.st_mode):
        os.chmod(copy.name, mode, dir_fd=copy.folder)
    times = was.st_atime_ns, was.st_mtime_ns
    os.utime(copy.name, ns=times, dir_fd=copy.folder, follow_symlinks=False)


def _keep_owner(copy: int | Named, was: os.stat_result, losses: Losses) -> tuple[bool, bool]:
    """Whether the copy has the user and the group of the original. An ordinary user may give files to nobody."""
    if _chown(copy, was.st_uid, was.st_gid):
        return True, True
    group = _chown(copy, -1, was.st_gid)
    user = was.st_uid == os.geteuid()
    if not (user and group):
        losses[OWNER_LOST] += 1
    return user, group


def _chown(copy: int | Named, user: int, group: int) -> bool:
    try:
        if isinstance(copy, Named):
            os.chown(copy.name, user, group, dir_fd=copy.folder, follow_symlinks=False)
        else:
            os.fchown(copy, user, group)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        return False
    return True


def _mode_with(was: os.stat_result, kept: tuple[bool, bool]) -> int:
    """The permissions. setuid and setgid would give a program the rights of another user than the original's."""
    mode = stat.S_IMODE(was.st_mode)
    if stat.S_ISDIR(was.st_mode):
        return mode
    user, group = kept
    return mode & ~(0 if user else stat.S_ISUID) & ~(0 if group else stat.S_ISGID)


def _keep_extended(original: int, copy: int, losses: Losses) -> None:
    try:
        names = os.listxattr(original)
    except OSError as error:
        if error.errno not in NOT_KEPT:
            raise
        return
    lost = False
    for name in names:
        try:
            os.setxattr(copy, name, os.getxattr(original, name))
        except OSError as error:
            if error.errno not in NOT_KEPT:
                raise
            lost = lost or name != OF_THE_MACHINE
    if lost:
        losses[ATTRIBUTE_LOST] += 1
