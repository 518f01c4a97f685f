"""Gives a copy the owner, extended attributes, permissions and times of its original."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from typing import NamedTuple

REFUSED = (errno.EPERM, errno.EINVAL)  # EINVAL: the user namespace has no such user
UNSUPPORTED = (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENODATA)
SELINUX_LABEL = "security.selinux"  # each machine sets its own label: its loss is not reported

Losses = Counter[str]
"""Names of the attributes that could not be kept, and for how many files."""

OWNER_LOST = "owner or group"
ATTRIBUTE_LOST = "extended attributes"


class Named(NamedTuple):
    """A link or a FIFO in an open folder. Such entries are not opened."""

    folder: int
    name: str


def keep_attributes(original: int, copy: int, info: os.stat_result, losses: Losses) -> None:
    """For an open file or folder. Sets the owner first: a change of the owner clears setuid and capabilities."""
    mode = _mode_with(info, _keep_owner(copy, info, losses))
    _keep_extended(original, copy, losses)
    os.fchmod(copy, mode)
    os.utime(copy, ns=(info.st_atime_ns, info.st_mtime_ns))


def keep_attributes_of(copy: Named, info: os.stat_result, losses: Losses) -> None:
    """For a link or a FIFO."""
    mode = _mode_with(info, _keep_owner(copy, info, losses))
    if not stat.S_ISLNK(info.st_mode):
        os.chmod(copy.name, mode, dir_fd=copy.folder)
    times = info.st_atime_ns, info.st_mtime_ns
    os.utime(copy.name, ns=times, dir_fd=copy.folder, follow_symlinks=False)


def _keep_owner(copy: int | Named, info: os.stat_result, losses: Losses) -> tuple[bool, bool]:
    """Whether the copy has the user and the group of the original. Only root can give files to another user."""
    if _chown(copy, info.st_uid, info.st_gid):
        return True, True
    group = _chown(copy, -1, info.st_gid)
    user = info.st_uid == os.geteuid()
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


def _mode_with(info: os.stat_result, kept: tuple[bool, bool]) -> int:
    """The permissions. Without the original owner, setuid and setgid are dropped: they would give the wrong rights."""
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISDIR(info.st_mode):
        return mode
    user, group = kept
    return mode & ~(0 if user else stat.S_ISUID) & ~(0 if group else stat.S_ISGID)


def _keep_extended(original: int, copy: int, losses: Losses) -> None:
    try:
        names = os.listxattr(original)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        return
    lost = False
    for name in names:
        try:
            os.setxattr(copy, name, os.getxattr(original, name))
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            lost = lost or name != SELINUX_LABEL
    if lost:
        losses[ATTRIBUTE_LOST] += 1
