"""What a pod's spec and its programs try on the machine that they run on, and do not get."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.specs import Mount
from local.node.pods import a_container, a_pod

Fields = Callable[[Path], dict[str, str]]
BACK = "/.machine"  # where the machine's root once was while a container's was made


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the machine in which no pod may leave anything."""
    with tempfile.TemporaryDirectory(prefix="escape-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o777)  # its mode is not what has to keep pods out
        yield Path(folder)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _working_directory(number: int, to: Path) -> dict[str, str]:
    return {"workingDir": f"/proc/self/fd/{number}{to}"}


def _mount_path(number: int, to: Path) -> dict[str, str]:
    return {"target": f"/proc/self/fd/{number}{to}/left"}


# Each is given the machine's folder, and a volume in which `out` is a link to it and `proc` one to /proc/1/root.
PATHS: dict[str, Fields] = {
    "termination file by the old root": lambda to: {"terminationPath": f"{BACK}{to}/left"},
    "mountPath by the old root": lambda to: {"target": f"{BACK}{to}/left"},
    "workingDir by the old root": lambda to: {"workingDir": f"{BACK}{to}/left"},
    "mountPath by dots": lambda to: {"target": f"/vol/../../../..{BACK}{to}/left"},
    "mountPath by a volume's link": lambda to: {"target": "/vol/out/left"},
    "mountPath by a volume's link to the old root": lambda to: {"target": "/vol/old/left"},
    "mountPath by a volume's link with dots": lambda to: {"target": "/vol/dots/left"},
    "workingDir by a volume's link to the old root": lambda to: {"workingDir": "/vol/old/left"},
    "termination file by a volume's link": lambda to: {"terminationPath": "/vol/old/left"},
    "termination file that is a volume's link": lambda to: {"terminationPath": "/vol/old-file"},
    "mountPath by the init's root": lambda to: {"target": f"/proc/1/root{BACK}{to}/left"},
    "mountPath by a volume's link into /proc": lambda to: {"target": f"/vol/proc{BACK}{to}/left"},
    **{f"workingDir by descriptor {number}": partial(_working_directory, number) for number in (4, 5, 6, 7, 8, 9)},
    **{f"mountPath by descriptor {number}": partial(_mount_path, number) for number in (4, 5, 6, 7, 8, 9)},
}


@pytest.mark.parametrize("user", [0, 1234], ids=["root", "user"])
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
async def test_a_path_in_a_pods_spec_makes_nothing_on_the_machine(
    runtime: PodRuntime, data_dir: Path, place: Path, path: Fields, user: int
) -> None:
    volume = data_dir / "volumes" / "claim"
    volume.mkdir(parents=True)
    (volume / "out").symlink_to(place)
    (volume / "old").symlink_to(f"{BACK}{place}")
    (volume / "old-file").symlink_to(f"{BACK}{place}/left")
    (volume / "dots").symlink_to(f"../../../../..{BACK}{place}")
    (volume / "proc").symlink_to("/proc/1/root")
    fields = path(place)
    mounts = [Mount(source=str(volume), target="/vol")]
    if "target" in fields:
        mounts.append(Mount(source=str(volume), target=fields.pop("target")))
    uid = await a_pod(runtime)
    script = "echo was here > left; echo was here > /dev/termination-log; exit 0"
    state = await runtime.start_container(uid, a_container("sh", "-c", script, mounts=mounts, user=user, **fields))  # type: ignore[arg-type]
    if state["status"] == "running":
        await runtime.wait_container(uid, "main", 0)
    assert not entries(place)


@pytest.mark.parametrize("masked", [False, True], ids=["shown", "masked"])
async def test_a_link_that_was_changed_after_it_was_looked_at_shows_nothing_hidden(
    runtime: PodRuntime, data_dir: Path, place: Path, masked: bool
) -> None:
    (data_dir / "key").write_text("hush")
    link = place / "link"
    link.symlink_to(data_dir if masked else place)
    uid = await a_pod(runtime)
    mounts = [Mount(source=str(link), target="/v", ofMachine=True)]
    state = await runtime.start_container(uid, a_container("ls", "/v", mounts=mounts))
    assert (state["reason"], "is not shown to pods" in state["message"]) == (
        ("StartError", True) if masked else ("", False)
    )
