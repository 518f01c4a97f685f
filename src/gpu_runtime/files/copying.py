"""Copies everything in one folder into another, with all attributes, and reports progress."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpu_runtime.files.attributes import Losses, Named, keep_attributes, keep_attributes_of
from gpu_runtime.files.clearing import clear_root
from gpu_runtime.files.durability import sync_file_system
from gpu_runtime.files.failure import FilesError, Full, Parts, printable, stopping_at
from gpu_runtime.files.folders import Folder, folder_below, folders_of, names_in, root_folder
from gpu_runtime.files.progress import Progress
from gpu_runtime.files.reporting import Reporter
from gpu_runtime.files.sparse_copy import Shorter, copy_content

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO in the place of a file must not block
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
SKIPPED = {stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
"""Entries that are not copied: they are of no use without the program or machine that made them."""
TARGET_LOST = "attributes of the target folder itself"


class Finished(NamedTuple):
    """A folder that is copied except for its attributes."""

    parts: Parts
    info: os.stat_result


def copy_tree(source: str, target: str, *, clear: bool, reporter: Reporter) -> Progress:
    """Copies everything below `source` into `target`, which must be empty unless `clear` empties it first.

    When it returns, the copy has reached the disk. It raises FilesError at the first file that cannot be copied or that
    changes during the copy. The target is then incomplete.
    """
    with root_folder(source) as from_root, root_folder(target) as to_root:
        if os.path.samestat(os.fstat(from_root), os.fstat(to_root)) or _overlap(source, target):
            raise FilesError(f"{source!r} and {target!r} are the same folder, or one of them lies in the other")
        if clear:
            clear_root(to_root)
        elif names_in(to_root):
            raise FilesError(f"{target!r} is not empty: use --clear to empty it first")
        copying = _Copying(from_root, to_root, reporter)
        try:
            copying.run()
        except Full as error:
            raise FilesError(f"{error}; the target is too small: {reporter.progress.line}") from error
        return reporter.done()


def _overlap(source: str, target: str) -> bool:
    here, there = os.path.realpath(source), os.path.realpath(target)
    return os.path.commonpath((here, there)) in (here, there)


class _Copying:
    def __init__(self, source: int, target: int, reporter: Reporter) -> None:
        self._source = source
        self._target = target
        self._reporter = reporter
        self._losses: Losses = Losses()
        self._links: dict[tuple[int, int], Parts] = {}
        """By device and inode: the first path under which a file with several names was copied."""
        self._folders: list[Finished] = []

    def run(self) -> None:
        self._reporter.begin(*self._count())
        for folder in folders_of(self._source):
            info = os.fstat(folder.fd)
            with stopping_at("open the copy of folder", folder.parts), folder_below(self._target, folder.parts) as copy:
                for name in folder.names:
                    self._copy_entry(folder, name, copy)
            self._folders.append(Finished(folder.parts, info))
        # Last, because writing into a folder changes its times and needs permission. Inner folders come first.
        for finished in reversed(self._folders):
            self._finish_folder(finished)
        progress = self._reporter.progress
        if (progress.files, progress.bytes) != (progress.files_total, progress.bytes_total):
            raise FilesError(f"the source changed while it was copied: {progress.line}")
        for lost, files in sorted(self._losses.items()):
            self._reporter.write_line(
                f"could not keep the {lost} ({files} times): the target or this user does not allow it"
            )
        with stopping_at("write to disk", ()):
            sync_file_system(self._target)

    def _count(self) -> tuple[int, int]:
        """The number of files and bytes. A file with several names counts once for each name; its bytes count once."""
        files, size, seen = 0, 0, set[tuple[int, int]]()
        for folder in folders_of(self._source):
            for name in folder.names:
                with stopping_at("read", (*folder.parts, name)):
                    info = os.lstat(name, dir_fd=folder.fd)
                if stat.S_ISDIR(info.st_mode) or stat.S_IFMT(info.st_mode) in SKIPPED:
                    continue
                files += 1
                identity = info.st_dev, info.st_ino
                if stat.S_ISREG(info.st_mode) and identity not in seen:
                    size += info.st_size
                if info.st_nlink > 1:
                    seen.add(identity)
        return files, size

    def _copy_entry(self, folder: Folder, name: str, copy: int) -> None:
        parts = (*folder.parts, name)
        with stopping_at("copy", parts):
            info = os.lstat(name, dir_fd=folder.fd)
            if stat.S_ISDIR(info.st_mode):
                os.mkdir(name, stat.S_IRWXU, dir_fd=copy)
                return
            if kind := SKIPPED.get(stat.S_IFMT(info.st_mode)):
                self._reporter.write_line(f"skipped {kind} {printable(parts)}")
                return
            if not self._link(info, parts, copy):
                self._copy_file(folder.fd, parts, copy, info)
            self._reporter.file_copied()

    def _link(self, info: os.stat_result, parts: Parts, copy: int) -> bool:
        """Makes a hard link if the file was copied under another name already; False if it was not."""
        first = self._links.get((info.st_dev, info.st_ino))
        if first is not None:
            with folder_below(self._target, first[:-1]) as place:
                os.link(first[-1], parts[-1], src_dir_fd=place, dst_dir_fd=copy, follow_symlinks=False)
            return True
        if info.st_nlink > 1:
            self._links[info.st_dev, info.st_ino] = parts
        return False

    def _copy_file(self, folder: int, parts: Parts, copy: int, info: os.stat_result) -> None:
        name = parts[-1]
        if stat.S_ISREG(info.st_mode):
            self._copy_regular(folder, parts, copy)
            return
        if stat.S_ISLNK(info.st_mode):
            os.symlink(os.readlink(name, dir_fd=folder), name, dir_fd=copy)
        else:
            os.mkfifo(name, stat.S_IRUSR | stat.S_IWUSR, dir_fd=copy)
        keep_attributes_of(Named(copy, name), info, self._losses)

    def _copy_regular(self, folder: int, parts: Parts, copy: int) -> None:
        with _opened(parts[-1], READ, folder) as original, _opened(parts[-1], CREATE, copy) as made:
            info = os.fstat(original)
            try:
                copy_content(original, made, info.st_size, self._reporter.bytes_copied)
            except Shorter:
                raise _changed(parts) from None
            if _version(os.fstat(original)) != _version(info):
                raise _changed(parts)
            keep_attributes(original, made, info, self._losses)

    def _finish_folder(self, finished: Finished) -> None:
        parts = finished.parts
        with (
            stopping_at("set the attributes of folder", parts),
            folder_below(self._source, parts) as original,
            folder_below(self._target, parts) as copy,
        ):
            if _version(os.fstat(original)) != _version(finished.info):
                raise _changed(parts)
            try:
                keep_attributes(original, copy, finished.info, self._losses)
            except PermissionError:
                if parts:
                    raise
                self._losses[TARGET_LOST] += 1  # the target folder itself belongs to another user


@contextmanager
def _opened(name: str, flags: int, folder: int) -> Iterator[int]:
    file = os.open(name, flags, stat.S_IRUSR | stat.S_IWUSR, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _version(seen: os.stat_result) -> tuple[int, int, int]:
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _changed(parts: Parts) -> FilesError:
    return FilesError(f"{printable(parts)} changed while it was copied")
