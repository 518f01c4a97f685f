"""Stand-ins, made from what this machine has, for the images that examples and tests name.

No registry is needed. `python:3.12` runs the interpreter that runs this (whatever its version), `nginx:1.27` is
busybox' web server, and `gpu-runtime:dev` is this project's wheel with its dependencies.
"""

from __future__ import annotations

import configparser
import importlib.metadata
import io
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from realkube.archive import Image, Layer
from realkube.errors import RealKubeError

LIBRARY = "docker.io/library"
PAUSE = "gpu-runtime.local/pause:1"
PROJECT = f"{LIBRARY}/gpu-runtime:dev"
CHECKOUT = Path(__file__).parents[2]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOT_IN_IMAGE = {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "site-packages", "dist-packages"}

ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
PAGE = b"<!DOCTYPE html><title>Welcome to nginx!</title><h1>Welcome to nginx!</h1>\n"
# busybox' web server ignores signals as the first process of a container; nginx ends at once.
NGINX = b"""#!/bin/sh
trap 'kill $server; exit 0' TERM QUIT INT
busybox httpd -f -p 80 -h /usr/share/nginx/html &
server=$!
wait $server
"""
SLEEP_UNTIL_KILLED = ("/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 86400 & wait $!; done")


def all_images() -> list[Image]:
    """Every image that a fresh cluster has."""
    environment = {"PATH": PATH}
    base = busybox_layer().tar()
    python = python_layer().tar()
    return [
        Image([PAUSE], [base], SLEEP_UNTIL_KILLED, environment),
        Image([f"{LIBRARY}/busybox:1.36"], [base], ["sh"], environment),
        Image([f"{LIBRARY}/nginx:1.27"], [base, nginx_layer().tar()], ["nginx"], environment, [80]),
        Image([f"{LIBRARY}/python:3.12", f"{LIBRARY}/python:3.12-slim"], [base, python], ["python"], environment),
        Image([PROJECT], [base, python, project_layer().tar()], ["sh"], {**environment, "PYTHONPATH": "/app"}),
    ]


def busybox_layer() -> Layer:
    """A small system: one program that is a hundred commands, accounts, and a /tmp."""
    busybox = Path("/bin/busybox")
    commands = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    return Layer(
        files={"bin/busybox": busybox},
        written={path: (text.encode(), 0o644) for path, text in ACCOUNTS.items()},
        links={f"bin/{command}": "busybox" for command in commands if command != "busybox"},
        folders={"tmp": 0o1777, "root": 0o700, "usr/bin": 0o755, "usr/sbin": 0o755, "var/tmp": 0o1777},
    )


def nginx_layer() -> Layer:
    """A web server on port 80 with a page, under nginx's names."""
    return Layer(written={"usr/sbin/nginx": (NGINX, 0o755), "usr/share/nginx/html/index.html": (PAGE, 0o644)})


def python_layer() -> Layer:
    """The interpreter that runs this, its standard library and the shared libraries they need."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    executable = Path(sys.executable).resolve()
    standard = Path(sysconfig.get_path("stdlib"))
    files = {f"usr/local/bin/{version}": executable}
    files |= {f"usr/local/lib/{version}/{name}": path for name, path in library_files(standard)}
    return Layer(
        files=files | shared_libraries(files.values()),
        links={"usr/local/bin/python3": version, "usr/local/bin/python": version},
    )


def project_layer() -> Layer:
    """This project's wheel, its commands, and its dependencies as the checkout's environment has them."""
    files = {f"app/{name}": path for name, path in dependency_files()}
    layer = Layer(files=files | shared_libraries(files.values()))
    with zipfile.ZipFile(io.BytesIO(wheel())) as contents:
        for item in contents.infolist():
            layer.written[f"app/{item.filename}"] = (contents.read(item), 0o644)
            if item.filename.endswith("/entry_points.txt"):
                for name, target in console_scripts(contents.read(item).decode()).items():
                    layer.written[f"usr/local/bin/{name}"] = (launcher(target).encode(), 0o755)
    return layer


def library_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """What programs use of a standard library: no tests, no optimised copies, no installed packages."""
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        unwanted = NOT_IN_IMAGE.intersection(inside.parts[:-1]) or inside.parts[0].startswith("config-")
        if path.is_file() and not unwanted and ".opt-" not in path.name and not path.name.startswith("_tkinter"):
            yield str(inside), path


def dependency_files() -> Iterator[tuple[str, Path]]:
    """The installed files of every package that requirements/runtime.txt pins for this platform."""
    pins = (CHECKOUT / "requirements" / "runtime.txt").read_text()
    for name in re.findall(r"^([A-Za-z0-9_.-]+)==", pins, re.MULTILINE):
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # pinned for another platform
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and path.is_file():
                yield str(file), path


def shared_libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """The libraries that these programs load, flat in /usr/lib, and the loader where programs expect it."""
    binaries = [str(path) for path in programs if is_elf(path)]
    listing = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    libraries = {f"usr/lib/{Path(path).name}": Path(path) for path in re.findall(r"=> (/\S+)", listing)}
    loaders = {path.lstrip("/"): Path(path) for path in re.findall(r"^\s+(/\S*/ld-\S+)", listing, re.MULTILINE)}
    return libraries | loaders


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def wheel() -> bytes:
    """The project's wheel, built from the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        done = subprocess.run(build, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RealKubeError(f"the project's wheel cannot be built: {done.stderr.strip()[-300:]}")
        return next(Path(folder).glob("*.whl")).read_bytes()


def console_scripts(entry_points: str) -> dict[str, str]:
    """Commands by name, with the `module:function` that each runs."""
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.read_string(entry_points)
    return dict(parser["console_scripts"]) if parser.has_section("console_scripts") else {}


def launcher(target: str) -> str:
    """A script that runs `module:function`."""
    module, function = target.split(":")
    return f"#!/usr/local/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
