"""Trees to copy, and a description of a tree in which two equal ones agree."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

NOBODY = 65534
ODD_NAMES = (
    b"new\nline", b"\xff\xfe not utf-8", b" spaces ", b"-rf", b"*", b"quote'\"", b"back\\slash", "ünïcode ☃".encode(),
    b"\x01\x7f", b"l" * 255, b"lost+found.txt",
)  # fmt: skip
MODES = (0o644, 0o600, 0o400, 0o755, 0o4755, 0o2755, 0o1644, 0o000, 0o777)
Described = dict[bytes, tuple[object, ...]]


def big_tree(root: Path, files: int = 10_000, seed: int = 1) -> None:
    """Files of many kinds in folders of many kinds: `files` regular ones, and links, FIFOs and odd names besides."""
    random = Random(seed)
    folders = [os.fsencode(root)]
    for number in range(files // 50):
        parent = random.choice(folders)
        name = random.choice(ODD_NAMES)[:240] + b"%d" % number
        os.mkdir(parent + b"/" + name)  # noqa: PTH102  a Path holds no bytes
        folders.append(parent + b"/" + name)
    made: list[bytes] = []
    for number in range(files):
        path = random.choice(folders) + b"/" + (b"file%d" % number if number % 40 else b"%d" % number + _odd(random))
        if number % 10 == 7:
            os.link(random.choice(made), path)
        elif number % 10 == 8:
            os.symlink(random.choice([*ODD_NAMES, b"/etc/passwd", b"../..", b"x" * 4000]), path)  # noqa: PTH211
        elif number % 500 == 9:
            os.mkfifo(path)
        elif number % 100 == 5:
            sparse_file(path, random)
        else:
            Path(os.fsdecode(path)).write_bytes(random.randbytes(random.choice([0, 1, 100, 5000])))
        made.append(path)
    for path in made:
        _dress(path, random)
    for path in reversed(folders[1:]):
        _dress(path, random)


def sparse_file(path: bytes, random: Random) -> None:
    """Data of random length at random places, with holes between them and most often at the end."""
    with Path(os.fsdecode(path)).open("wb") as file:
        for _ in range(random.randrange(4)):
            file.seek(random.randrange(2**20))
            file.write(random.randbytes(random.randrange(1, 10_000)))
        file.truncate(max(file.tell(), random.randrange(2**21)))


def deep_folder(root: Path, depth: int) -> None:
    """A chain of folders whose path is longer than any system call takes, with a file at its end."""
    folder = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("folder", dir_fd=folder)
        inner = os.open("folder", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def describe(root: Path) -> Described:
    """Every entry below the root by its path, and the root itself; without the root's lost+found."""
    found: Described = {}
    first_names: dict[int, bytes] = {}
    for folder, folders, names in os.walk(os.fsencode(root)):
        if folder == os.fsencode(root) and b"lost+found" in folders:
            folders.remove(b"lost+found")
        folders.sort()
        for name in [b".", *folders, *sorted(names)]:
            path = folder + b"/" + name if name != b"." else folder
            seen = os.lstat(path)
            relative = os.path.relpath(path, os.fsencode(root))
            first = first_names.setdefault(seen.st_ino, relative)
            links = (seen.st_nlink, first) if not stat.S_ISDIR(seen.st_mode) else ()
            owner = seen.st_uid, seen.st_gid
            held = _content(path, seen), _extended(path)
            found[relative] = oct(seen.st_mode), *owner, seen.st_mtime_ns, links, *held
    return found


@contextmanager
def ordinary_user() -> Iterator[None]:
    """The block runs with the rights of a user who owns nothing."""
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def layout(path: bytes) -> list[tuple[int, int]]:
    """Where the data of a file is."""
    parts, end = [], 0
    with Path(os.fsdecode(path)).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while end < size:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:
                break
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            parts.append((start, end))
    return parts


def _content(path: bytes, seen: os.stat_result) -> object:
    if stat.S_ISLNK(seen.st_mode):
        return os.readlink(path)  # noqa: PTH115
    if stat.S_ISREG(seen.st_mode):
        digest = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest()
        return seen.st_size, digest, layout(path) if seen.st_size > 20_000 else ()
    return ()


def _extended(path: bytes) -> object:
    names = os.listxattr(path, follow_symlinks=False)
    return sorted((name, os.getxattr(path, name, follow_symlinks=False)) for name in names)


def _odd(random: Random) -> bytes:
    return random.choice(ODD_NAMES)[:240]


def _dress(path: bytes, random: Random) -> None:
    """Owner, permissions, an attribute and a time, each of them sometimes."""
    kind = os.lstat(path).st_mode
    if os.geteuid() == 0 and random.random() < 0.5:
        os.chown(path, random.randrange(5000), random.randrange(5000), follow_symlinks=False)
    if not stat.S_ISLNK(kind):
        if random.random() < 0.1 and (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            os.setxattr(path, "user.note", random.randbytes(20))
        os.chmod(path, random.choice(MODES) | (0o700 if os.geteuid() else 0))  # noqa: PTH101
    os.utime(path, ns=(random.randrange(2**60), random.randrange(2**60)), follow_symlinks=False)
