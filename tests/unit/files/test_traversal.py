"""Attacks on the server: no request and no link reads anything outside of the volume."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from equipment.mutation import mutant
from gpu_runtime.files import archive
from gpu_runtime.files.errors import FileNotServed, Refused
from gpu_runtime.files.volume import DEEPEST, Volume
from unit.files.world import PREFIX, SECRET, a_volume, fetch, serving

PATHS = {
    "parent": "/../secret/passwd",
    "parent twice": "/models/../../secret/passwd",
    "parent at the end": "/models/..",
    "parent with a slash at the end": "/models/small/../../../secret/",
    "encoded dots": "/%2e%2e/secret/passwd",
    "encoded dots in upper case": "/%2E%2E/secret/passwd",
    "half encoded dots": "/.%2e/secret/passwd",
    "encoded slash": "/..%2fsecret%2fpasswd",
    "encoded slash in upper case": "/..%2Fsecret%2Fpasswd",
    "all encoded": "/%2e%2e%2f%73%65%63%72%65%74%2f%70%61%73%73%77%64",
    "double encoded dots": "/%252e%252e/secret/passwd",
    "double encoded slash": "/..%252fsecret%252fpasswd",
    "triple encoded": "/%25252e%25252e/secret/passwd",
    "backslash": "/..\\secret\\passwd",
    "encoded backslash": "/..%5csecret%5cpasswd",
    "overlong UTF-8 dots": "/%c0%ae%c0%ae/secret/passwd",
    "overlong UTF-8 slash": "/..%c0%afsecret%c0%afpasswd",
    "fullwidth dots": "/%ef%bc%8e%ef%bc%8e/secret/passwd",
    "UTF-16 escapes": "/%u002e%u002e/secret/passwd",
    "NUL before the end": "/notes.txt%00/../../secret/passwd",
    "NUL at the end": "/notes.txt%00",
    "NUL inside": "/..%00/secret/passwd",
    "absolute": "//etc/passwd",
    "absolute, encoded": "/%2fetc%2fpasswd",
    "absolute after a folder": "/models//etc/passwd",
    "current folder": "/./notes.txt",
    "encoded current folder": "/%2e/notes.txt",
    "dots and a space": "/..%20/secret/passwd",
    "dots and a semicolon": "/..;/secret/passwd",
    "three dots": "/.../secret/passwd",
    "dots with a fragment": "/..%23/secret/passwd",
    "through a file": "/notes.txt/../../secret/passwd",
    "a file as a folder": "/notes.txt/passwd",
    "a file with a slash": "/notes.txt/",
    "home": "/~root/.ssh/id_rsa",
    "a URL": "/file:///etc/passwd",
    "newline": "/%0a../secret/passwd",
    "very long name": "/" + "a" * 1000,
    "very deep": "/models" * 900,
}

OUTSIDE = {
    "no prefix": "/notes.txt",
    "prefix of another storage": "/storages/default/other/notes.txt",
    "prefix that goes on": "/storages/default/datax/notes.txt",
    "prefix left again": f"{PREFIX}/../data/notes.txt",
    "encoded prefix": "/storages/default/%64ata/notes.txt",
    "absolute form": f"http://localhost{PREFIX}/notes.txt",
    "nothing but the slash": "/",
}

LINKS: dict[str, tuple[str, str]] = {
    "to a file": ("../secret/passwd", "/link"),
    "to a folder": ("../secret", "/link/passwd"),
    "to a folder, listed": ("../secret", "/link/"),
    "to a folder, archived": ("../secret", "/link/?archive=tar"),
    "absolute to a file": ("{outside}/secret/passwd", "/link"),
    "absolute to a folder": ("{outside}/secret", "/link/passwd"),
    "absolute to the root": ("/", "/link{outside}/secret/passwd"),
    "absolute to the volume itself": ("{outside}/volume/notes.txt", "/link"),
    "absolute, to a name that the volume has too": ("/notes.txt", "/link"),
    "to the parent": ("..", "/link/secret/passwd"),
    "to the parent, listed": ("..", "/link/"),
    "through a folder and out": ("models/small/../../../secret/passwd", "/link"),
    "through a missing folder and out": ("missing/../../secret/passwd", "/link"),
    "through itself and out": ("./././../secret/passwd", "/link"),
    "with slashes": ("..//secret///passwd", "/link"),
    "many parents": ("../" * 60 + "{outside}/secret/passwd", "/link"),
    "to /proc/self/root": ("/proc/self/root", "/link{outside}/secret/passwd"),
    "to /proc/self/cwd": ("/proc/self/cwd", "/link/"),
    "to an open file of the server": ("/proc/self/fd/0", "/link"),
    "to the environment of the server": ("/proc/self/environ", "/link"),
    "to a device": ("/dev/zero", "/link"),
    "to itself": ("link", "/link"),
    "to nothing": ("nothing", "/link"),
    "with a newline": ("../secret\n/passwd", "/link"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_volume(tmp_path)


@pytest.mark.parametrize(
    "attack", [*(PREFIX + path for path in PATHS.values()), *OUTSIDE.values()], ids=[*PATHS, *OUTSIDE]
)
async def test_a_path_that_leads_out_is_not_found(folder: Path, attack: str) -> None:
    async with serving(folder) as port:
        answer = await fetch(port, attack)
        assert answer.status in {400, 404}
        assert SECRET not in answer.body
        assert b"inside" not in answer.body
        assert (await fetch(port, f"{PREFIX}/notes.txt")).body == b"inside\n"


@pytest.mark.parametrize(("target", "path"), LINKS.values(), ids=LINKS)
@mutant("files/volume.py", "if not self._folders:", "if False:")
@mutant("files/volume.py", 'if target.startswith(b"/"):', "if False:")
async def test_a_link_that_leads_out_is_refused_in_every_position(folder: Path, target: str, path: str) -> None:
    outside = str(folder.parent)
    (folder / "link").symlink_to(target.format(outside=outside))
    (folder / "models" / "up").symlink_to("../link")  # a link to a link
    (folder / "inner").symlink_to("models")
    below = path.format(outside=outside).removeprefix("/link")
    async with serving(folder) as port:
        for start in ("/link", "/models/up", "/inner/up", "/inner/../link"):
            answer = await fetch(port, f"{PREFIX}{start}{below}")
            assert answer.status in {403, 404}
            assert SECRET not in answer.body
            assert b"passwd" not in answer.body.replace(b"secret/passwd", b"")


@pytest.mark.parametrize(
    ("target", "path", "body"),
    [
        pytest.param("notes.txt", "/link", b"inside\n", id="to a file"),
        pytest.param("models", "/link/readme.md", b"read me\n", id="to a folder"),
        pytest.param("./models/small/../readme.md", "/link", b"read me\n", id="down and up again"),
        pytest.param("models/back/notes.txt", "/link", b"inside\n", id="through a link to the top"),
    ],
)
async def test_a_link_that_stays_in_the_volume_works(folder: Path, target: str, path: str, body: bytes) -> None:
    (folder / "models" / "back").symlink_to("..")
    (folder / "link").symlink_to(target)
    async with serving(folder) as port:
        answer = await fetch(port, PREFIX + path)
    assert (answer.status, answer.body) == (200, body)


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize("make", [a_fifo, a_socket])
async def test_what_is_no_regular_file_is_listed_and_never_opened(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder / "odd")
    async with serving(folder) as port:
        assert (await fetch(port, f"{PREFIX}/odd")).status == 403
        listed = await fetch(port, f"{PREFIX}/")
        assert b"odd" in listed.body
        assert b'href="./odd"' not in listed.body


def becomes(path: Path, make: Callable[[Path], None]) -> Callable[[], None]:
    """Replaces what is at the path."""

    def replace() -> None:
        path.rename(path.with_name("moved"))
        make(path)

    return replace


@pytest.mark.parametrize(
    ("victim", "names", "make"),
    [
        pytest.param(
            "models", [b"models", b"passwd"], lambda path: path.symlink_to("../secret"), id="a folder, a link"
        ),
        pytest.param(
            "models/small", [b"models", b"small"], lambda path: path.symlink_to("../.."), id="the last folder"
        ),
        pytest.param(
            "notes.txt", [b"notes.txt"], lambda path: path.symlink_to("../secret/passwd"), id="a file, a link"
        ),
        pytest.param("notes.txt", [b"notes.txt"], a_fifo, id="a file, a pipe without a writer"),
        pytest.param("notes.txt", [b"notes.txt"], Path.mkdir, id="a file, a folder"),
    ],
)
@mutant("files/volume.py", "FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW", "FOLDER = os.O_PATH | os.O_DIRECTORY")
@mutant("files/volume.py", "FILE = os.O_RDONLY | os.O_NOFOLLOW", "FILE = os.O_RDONLY")
@mutant("files/volume.py", "if not stat.S_ISREG(info.st_mode):", "if False:")
def test_a_name_that_is_replaced_after_the_look_is_not_followed(
    folder: Path, victim: str, names: list[bytes], make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    swaps = [becomes(folder / victim, make)]
    look = os.stat

    def look_then_swap(path: bytes, *, dir_fd: int, follow_symlinks: bool) -> os.stat_result:
        seen = look(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if path == os.fsencode(Path(victim).name) and swaps:
            swaps.pop()()
        return seen

    opened = Volume(folder)
    monkeypatch.setattr(os, "stat", look_then_swap)
    with pytest.raises(FileNotServed):
        opened.open(names)
    assert not swaps
    opened.close()


SWAP = """
import os, select, sys
os.chdir(sys.argv[1])
print("swapping", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    for source, target in (("models", "kept"), ("out", "models"), ("models", "out"), ("kept", "models")):
        os.rename(source, target)
"""


@pytest.fixture
def swapped(folder: Path) -> Iterator[Path]:
    """A volume whose folder `models` is a link to `../secret` every other moment, until the test ends."""
    (folder / "models" / "passwd").write_bytes(b"harmless")
    (folder / "out").symlink_to("../secret")
    command = [sys.executable, "-Ic", SWAP, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as swapping:
        assert swapping.stdin is not None
        assert swapping.stdout is not None
        swapping.stdout.readline()
        yield folder
        swapping.stdin.close()
    assert swapping.returncode == 0
    assert (folder / "models" / "passwd").read_bytes() == b"harmless"


def test_a_folder_that_is_renamed_to_a_link_and_back_never_shows_the_outside(swapped: Path) -> None:
    opened = Volume(swapped)
    for _ in range(5000):
        try:
            file = opened.open([b"models", b"passwd"])
        except Refused:
            continue
        assert file.read(100, 0) == b"harmless"
        file.close()
    opened.close()


def test_an_archive_of_a_folder_that_changes_into_a_link_holds_nothing_of_the_outside(swapped: Path) -> None:
    opened = Volume(swapped)
    for _ in range(300):
        top = opened.open([])
        made = archive.pieces(top, b"data")
        try:
            assert all(SECRET not in piece for piece in made)
        except OSError:  # a folder became a link: the archive is cut off
            pass
        finally:
            made.close()
            top.close()
    opened.close()


async def test_a_listing_of_a_folder_that_is_renamed_to_a_link_never_shows_the_outside(swapped: Path) -> None:
    (swapped.parent / "secret" / "only-outside").touch()
    async with serving(swapped) as port:
        for _ in range(200):
            answer = await fetch(port, f"{PREFIX}/models/")
            assert answer.status in {200, 403, 404}
            assert b"only-outside" not in answer.body


def test_a_path_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_PATH)
    for _ in range(DEEPEST + 1):
        os.mkdir("a", dir_fd=held)
        next_one = os.open("a", os.O_PATH, dir_fd=held)
        os.close(held)
        held = next_one
    os.close(held)
    opened = Volume(tmp_path)
    opened.open([b"a"] * DEEPEST).close()
    with pytest.raises(FileNotServed, match="500 folders deep"):
        opened.open([b"a"] * (DEEPEST + 1))
    opened.close()
