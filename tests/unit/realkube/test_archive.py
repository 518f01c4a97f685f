"""Image archives are what a container engine expects, and the same input gives the same image."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from realkube.archive import Blob, Image, Layer, write_archive


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_bytes(b"#!/bin/sh\n")
    path.chmod(0o755)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


def members(layer: Blob) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer.content)) as archive:
        return {member.name: member for member in archive.getmembers()}


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        files = {name: archive.extractfile(name) for name in archive.getnames()}
        return {name: file.read() for name, file in files.items() if file is not None}


def decoded(path: Path, name: str) -> Any:
    return json.loads(contents(path)[name])


def test_a_layer_holds_files_texts_links_and_folders_with_their_modes(program: Path) -> None:
    layer = Layer(
        files={"bin/program": program},
        written={"etc/name": (b"value\n", 0o600)},
        links={"bin/alias": "program"},
        folders={"tmp": 0o1777},
    )

    found = members(layer.tar())

    assert found["bin/program"].mode == 0o755
    assert found["etc/name"].mode == 0o600
    assert found["bin/alias"].linkname == "program"
    assert (found["tmp"].isdir(), found["tmp"].mode) == (True, 0o1777)


def test_a_copied_file_keeps_its_time_so_that_compiled_python_beside_it_stays_valid(program: Path) -> None:
    assert members(Layer(files={"program": program}).tar())["program"].mtime == 1_000_000_000


def test_every_folder_stands_in_the_layer_before_what_lies_in_it(program: Path) -> None:
    names = list(members(Layer(files={"a/b/c": program}, folders={"x/y": 0o700}).tar()))

    assert names.index("a") < names.index("a/b") < names.index("a/b/c")
    assert {"x", "x/y"} <= set(names)


def test_the_same_files_give_the_same_bytes_in_whatever_order_they_come(program: Path) -> None:
    one = Layer(files={"a": program, "b": program}, links={"c": "a", "d": "b"})
    other = Layer(files={"b": program, "a": program}, links={"d": "b", "c": "a"})

    assert one.tar() == other.tar()


def test_an_image_names_its_layers_by_the_digest_of_their_content(tmp_path: Path) -> None:
    layer = Layer(written={"file": (b"content", 0o644)}).tar()
    image = Image(["example.com/one:1"], [layer], ["run", "me"], {"PATH": "/bin"}, [80])

    write_archive(tmp_path / "images.tar", [image])

    [manifest] = decoded(tmp_path / "images.tar", "manifest.json")
    config = decoded(tmp_path / "images.tar", manifest["Config"])
    assert manifest["RepoTags"] == ["example.com/one:1"]
    assert contents(tmp_path / "images.tar")[manifest["Layers"][0]] == layer.content
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer.content).hexdigest()}"]
    assert config["config"]["Cmd"] == ["run", "me"]
    assert config["config"]["Env"] == ["PATH=/bin"]
    assert config["config"]["ExposedPorts"] == {"80/tcp": {}}


def test_a_layer_that_images_share_is_in_the_archive_once(tmp_path: Path) -> None:
    base = Layer(written={"base": (b"1", 0o644)}).tar()
    more = Layer(written={"more": (b"2", 0o644)}).tar()

    write_archive(tmp_path / "images.tar", [Image(["a:1"], [base], ["a"]), Image(["b:1"], [base, more], ["b"])])

    with tarfile.open(tmp_path / "images.tar") as archive:
        layers = [name for name in archive.getnames() if name.endswith(".tar")]
    assert len(layers) == 2
    assert len(decoded(tmp_path / "images.tar", "manifest.json")) == 2
