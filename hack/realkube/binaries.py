"""Kubernetes' own programs, built once from Go modules and kept outside the checkout.

No release download is needed: the module proxy carries the sources, `gomod/` pins them by hash, and the Go
toolchain does the rest (five minutes on two cores, once).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from realkube.errors import RealKubeError
from realkube.progress import Say, reminders, timed

KUBERNETES = "v1.35.4"
GO_MODULES = Path(__file__).parent / "gomod"
ATTEMPTS = 4
RETRY_PAUSE = 5.0  # module proxies answer 429 and 5xx now and then; finished downloads are kept between attempts


@dataclass(frozen=True)
class Program:
    """One binary: the Go module of ours that pins it, and the package to build there."""

    module: str
    package: str


PROGRAMS = {
    "etcd": Program("kubernetes", "./etcd"),
    **{
        name: Program("kubernetes", f"k8s.io/kubernetes/cmd/{name}")
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
            "kubelet",
            "kube-proxy",
        )
    },
    "kwok": Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
}

KWOK_STAGES = "kwok-stages.yaml"
KWOK_STAGE_FILES = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
)


def cache_dir() -> Path:
    """Where built programs are kept, outside any checkout so that all of them share one build."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "gpu-runtime" / "kube" / KUBERNETES


def ensure(*names: str, say: Say = print) -> dict[str, Path]:
    """Give the path of each named program, building those that neither KUBEBUILDER_ASSETS nor the cache has."""
    for name in names:
        if found(name) is None:
            with only_builder(say):
                if found(name) is None:  # another process may have built it while we waited
                    build(name, say)
    paths = {name: found(name) for name in names}
    return {name: path for name, path in paths.items() if path is not None}


def found(name: str) -> Path | None:
    """The program's path if it needs no building."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders = [Path(assets), cache_dir()] if assets else [cache_dir()]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def kwok_stages(say: Say = print) -> Path:
    """kwok's configuration: its own stage files for nodes and pods that behave at once, joined into one."""
    path = cache_dir() / KWOK_STAGES
    if not path.is_file():
        with only_builder(say):
            sources = Path(go("kwok", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").strip())
            stages = [(sources / "kustomize/stage" / f"{name}.yaml").read_text() for name in KWOK_STAGE_FILES]
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text("---\n".join(stages))
            unfinished.rename(path)
    return path


@contextmanager
def only_builder(say: Say) -> Iterator[None]:
    """Hold the cache's lock: of several test runs on one machine, one builds and the others wait for it."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is building Kubernetes {KUBERNETES}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(name: str, say: Say) -> None:
    """Build one program into the cache; it appears there whole or not at all."""
    program = PROGRAMS[name]
    unfinished = cache_dir() / f".{name}.unfinished"
    say(f"building {name} (once; kept in {cache_dir()})")
    with timed(f"built {name}", say), reminders(f"building {name}", say):
        go(
            program.module,
            *("build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", linker_flags()),
            *("-o", str(unfinished), program.package),
        )
    unfinished.rename(cache_dir() / name)


def linker_flags() -> str:
    """Stamp the version as a release build does: kubectl, discovery and version checks read it."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    stamps = {"gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(
        ["-s", "-w", *(f"-X {package}.{key}={value}" for package in packages for key, value in stamps.items())]
    )


def go(module: str, *args: str) -> str:
    """Run the go command in one of our modules and give its output; a failed download is tried again."""
    if shutil.which("go") is None:
        raise RealKubeError(
            f"no go command: install Go 1.26 or newer, which builds Kubernetes {KUBERNETES} once,"
            " or set KUBEBUILDER_ASSETS to a folder that has its binaries"
        )
    for attempt in range(1, ATTEMPTS + 1):
        done = subprocess.run(
            ["go", *args],
            cwd=GO_MODULES / module,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
        if "requires go >=" in done.stderr or "invalid go version" in done.stderr:
            break
        if attempt < ATTEMPTS:
            time.sleep(RETRY_PAUSE * attempt)
    last_lines = "; ".join(done.stderr.strip().splitlines()[-3:])
    raise RealKubeError(f"go {args[0]} failed in {GO_MODULES / module}: {last_lines}")
