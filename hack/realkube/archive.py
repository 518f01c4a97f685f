"""Container images as archive files, written without a container engine."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class Blob:
    """Content that an archive names by its digest, which is costly to compute and so computed once."""

    content: bytes
    digest: str

    @classmethod
    def of(cls, content: bytes) -> Blob:
        return cls(content, hashlib.sha256(content).hexdigest())


@dataclass
class Layer:
    """Files of an image by their path in it; the same files always give the same bytes."""

    files: dict[str, Path] = field(default_factory=dict)  # copied from this machine, links followed
    written: dict[str, tuple[bytes, int]] = field(default_factory=dict)  # given as they are, with their mode
    links: dict[str, str] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)

    def tar(self) -> Blob:
        """The layer as an image holds it."""
        output = io.BytesIO()
        with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(self._all_folders()):
                archive.addfile(entry(path, tarfile.DIRTYPE, self.folders.get(path, 0o755)))
            for path, (content, mode) in sorted(self.written.items()):
                add_bytes(archive, path, content, mode)
            for path, source in sorted(self.files.items()):
                status = source.stat()
                # Python trusts compiled files only while their sources keep their times.
                add_bytes(archive, path, source.read_bytes(), status.st_mode & 0o777, int(status.st_mtime))
            for path, target in sorted(self.links.items()):
                link = entry(path, tarfile.SYMTYPE, 0o777)
                link.linkname = target
                archive.addfile(link)
        return Blob.of(output.getvalue())

    def _all_folders(self) -> set[str]:
        """Every folder that something lies in: unpacking needs none to be implied."""
        paths = [*self.files, *self.written, *self.links, *(f"{folder}/x" for folder in self.folders)]
        return {str(parent) for path in paths for parent in Path(path).parents if str(parent) != "."}


@dataclass(frozen=True)
class Image:
    """Layers under one or more names, and what runs when nothing else is asked for."""

    names: Sequence[str]
    layers: Sequence[Blob]
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    ports: Sequence[int] = ()

    def config(self) -> dict[str, object]:
        """The image's configuration, which names its layers by their content."""
        machine = platform.machine()
        return {
            "architecture": ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "created": EPOCH,
            "config": {
                "Cmd": list(self.command),
                "Env": [f"{key}={value}" for key, value in self.environment.items()],
                "ExposedPorts": {f"{port}/tcp": {} for port in self.ports},
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in self.layers]},
            "history": [{"created": EPOCH, "created_by": "realkube"} for _ in self.layers],
        }


def write_archive(path: Path, images: Sequence[Image]) -> None:
    """Write the images as one docker-archive; a layer that several share is in it once."""
    layers = {layer.digest: layer for image in images for layer in image.layers}
    configs = [Blob.of(json.dumps(image.config()).encode()) for image in images]
    manifest = [
        {
            "Config": f"{config.digest}.json",
            "RepoTags": list(image.names),
            "Layers": [f"{layer.digest}.tar" for layer in image.layers],
        }
        for image, config in zip(images, configs, strict=True)
    ]
    with tarfile.open(path, "w") as archive:
        for layer in layers.values():
            add_bytes(archive, f"{layer.digest}.tar", layer.content, 0o644)
        for config in configs:
            add_bytes(archive, f"{config.digest}.json", config.content, 0o644)
        add_bytes(archive, "manifest.json", json.dumps(manifest).encode(), 0o644)


def add_bytes(archive: tarfile.TarFile, path: str, content: bytes, mode: int, changed: int = 0) -> None:
    item = entry(path, tarfile.REGTYPE, mode)
    item.size, item.mtime = len(content), changed
    archive.addfile(item, io.BytesIO(content))


def entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    item = tarfile.TarInfo(path)
    item.type, item.mode = kind, mode
    return item
