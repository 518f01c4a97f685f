"""What a pod's spec and its programs try on the machine that they run on, and do not get."""

from __future__ import annotations

import functools
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.hidden import ShownFolder
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.specs import Mount
from local.node.pods import a_container, a_pod, run

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
    **{
        f"workingDir by descriptor {number}": functools.partial(_working_directory, number)
        for number in (4, 5, 6, 7, 8, 9)
    },
    **{f"mountPath by descriptor {number}": functools.partial(_mount_path, number) for number in (4, 5, 6, 7, 8, 9)},
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


def call(arguments: str) -> str:
    """A system call by its number; the numbers are those of x86-64."""
    return python(f"import ctypes; raise SystemExit(ctypes.CDLL(None).syscall({arguments}) < 0)")


def python(script: str) -> str:
    return f"python -c {shlex.quote(script)}"


CHROOT = """
import os
os.makedirs('/tmp/inner', exist_ok=True)
outside = os.open('/', os.O_RDONLY)
os.chroot('/tmp/inner')
os.fchdir(outside)
for _ in range(99): os.chdir('..')
os.chroot('.')
os.stat('{secret}')
"""
# What a program in a pod tries; each must fail. {secret} lies in the home of whoever runs this, {data} is ours.
ACTIONS = {
    "make a disk": "mknod /disk b 254 0",
    "make the machine's memory": "mknod /dev/mem c 1 1",
    "read a disk": "head -c 1 /dev/vda /dev/sda /dev/nvme0n1 2>/dev/null | grep -q .",
    "mount something": "mount -t tmpfs none /mnt",
    "mount by another call": call("428, -100, b'/', 1"),
    "uncover what is masked": "umount /etc/shadow || umount -l /root",
    "make /proc writable": "mount -o remount,rw /proc/sys",
    "change the kernel": "echo 1 > /proc/sys/kernel/panic",
    "have the kernel run a program": "echo '|/tmp/x' > /proc/sys/kernel/core_pattern",
    "press a key of the kernel": "echo b > /proc/sysrq-trigger",
    "read the kernel's memory": "head -c 1 /proc/kcore | grep -q .",
    "change a control group": "mkdir /sys/fs/cgroup/memory/mine || mkdir /sys/fs/cgroup/mine",
    "change a device": "echo 1 > /sys/class/net/lo/mtu",
    "rename the machine": "hostname other",
    "enter the init's namespaces": "nsenter -t 1 -m true",
    "make a mount namespace": "unshare -m true",
    "trace the init": call("101, 16, 1, 0, 0"),
    "read the init's memory": "head -c 1 /proc/1/mem",
    "read the init's files": "ls /proc/1/root/ || cat /proc/1/fd/3",
    "read the init's environment": "cat /proc/1/environ",
    "signal somebody outside": "kill -0 {pid}",
    "leave by chroot": python(CHROOT),
    "open a file by its number": call("304, -100, bytes(32), 0"),
    "load a module": call("175, 0, 0, b''"),
    "talk to ports of the hardware": call("172, 3"),
    "read the passwords": "test -s /etc/shadow",
    "read the groups' passwords": "test -s /etc/gshadow",
    "read the passwords by another name": "test -s /proc/self/root/etc/../etc/shadow",
    "read the passwords by a link of a volume": "test -s /vol/shadow",
    "read the passwords by a hard link": "ln /etc/shadow /etc/other && test -s /etc/other",
    "move the passwords away": "mv /etc/shadow /etc/other && test -s /etc/other",
    "read host keys": "cat /etc/ssh/ssh_host_*_key | grep -q .",
    "read a secret at home": "cat {secret}",
    "read a secret at home by another name": "cat /proc/self/root{secret}",
    "list a home": "ls -A /root /home/* {home} | grep -q escape",
    "read what belongs to the cluster": "cat {data}/secret",
    "reach a container engine": "ls /run/docker.sock /var/run/docker.sock /run/containerd/containerd.sock | grep -q .",
    "reach the machine's services": "ls /run/systemd /run/dbus | grep -q .",
    "make a user namespace": "unshare -U true",
    "make a user namespace by clone": call("56, 0x10000000 | 17, 0, 0, 0, 0"),
    "use the kernel's keys": call("250, 0, -3, 0"),
    "run in the kernel": call("321, 0, 0, 0"),
    "watch the machine's performance": call("298, bytes(128), 0, -1, -1, 0"),
    "make a ring": call("425, 1, bytes(120)"),
    "gain privileges": "grep -q 'NoNewPrivs:.0' /proc/self/status",
}  # fmt: skip


@pytest.fixture
def secret() -> Iterator[Path]:
    """A file in the home of whoever runs this, which no mode protects."""
    with tempfile.TemporaryDirectory(prefix=".escape-", dir=Path.home()) as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "id_rsa"
        path.write_text("hush")
        yield path


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of the calls are those of x86-64")
@pytest.mark.parametrize("user", [0, 1234], ids=["root", "user"])
async def test_no_program_in_a_pod_reaches_the_machine(
    runtime: PodRuntime, data_dir: Path, secret: Path, user: int
) -> None:
    (data_dir / "secret").write_text("hush")
    volume = data_dir / "volumes" / "claim"
    volume.mkdir(parents=True)
    (volume / "shadow").symlink_to("/etc/shadow")
    facts = {"secret": secret, "home": Path.home(), "data": data_dir, "pid": os.getpid()}
    uid = await a_pod(runtime)
    mounts = [Mount(source=str(volume), target="/vol")]
    await runtime.start_container(uid, a_container("sleep", "3600", mounts=mounts, user=user))
    done = {}
    for name, action in ACTIONS.items():
        script = functools.reduce(lambda text, key: text.replace(f"{{{key}}}", str(facts[key])), facts, action)
        code, said = await runtime.execute(uid, "main", 0, ["sh", "-c", script], 60)
        if code == 0:
            done[name] = said
    assert done == {}


@pytest.fixture
def beside_python() -> Iterator[Path]:
    """A folder of the interpreter that runs this, which everybody may change."""
    with tempfile.TemporaryDirectory(prefix=".escape-", dir=sys.prefix) as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


async def test_a_pod_does_not_change_the_machines_interpreter(runtime: PodRuntime, beside_python: Path) -> None:
    await run(runtime, "sh", "-c", f"echo left > {beside_python}/left")  # in the pod's own layer it may
    assert entries(beside_python) == []


async def test_a_pods_own_home_is_empty_and_can_be_written(runtime: PodRuntime, secret: Path) -> None:
    script = f"mkdir -p ~/.cache && echo mine > ~/.cache/file && cat ~/.cache/file; ls -d {secret.parent} || echo none"
    _, lines = await run(runtime, "sh", "-c", f"({script}) 2>/dev/null", env={"HOME": str(Path.home())})
    assert lines == ["mine", "none"]
    assert not (Path.home() / ".cache" / "file").exists()


async def test_a_folder_at_home_is_shown_where_somebody_asks_for_it(
    data_dir: Path, capabilities: Capabilities, secret: Path
) -> None:
    models, work = secret.parent / "models", secret.parent / "work"
    for folder in (models, work):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    shown = [ShownFolder(str(models)), ShownFolder(str(work), writable=True)]
    async with PodRuntime(data_dir, capabilities, shown=shown) as runtime:
        script = (
            f"cat {models}/file {work}/file; echo; touch {models}/x || echo closed; echo new > {work}/file; ls {secret}"
        )
        _, lines = await run(runtime, "sh", "-c", f"({script}) 2>/dev/null")
        await runtime.shutdown()
    assert lines == ["modelswork", "closed"]
    assert (work / "file").read_text() == "new\n"
    assert entries(models) == ["file"]


async def test_a_volume_of_the_whole_machine_shows_nothing_that_is_hidden(runtime: PodRuntime, secret: Path) -> None:
    mounts = [Mount(source="/", target="/machine", ofMachine=True)]
    script = f"test -d /machine/usr && echo machine; cat /machine{secret}; test -s /machine/etc/shadow && echo shadow"
    _, lines = await run(runtime, "sh", "-c", f"({script}) 2>/dev/null", mounts=mounts)
    assert lines == ["machine"]
    for path in (secret.parent, Path("/etc/shadow"), Path("/root")):
        uid = await a_pod(runtime)
        mounts = [Mount(source=str(path), target="/v", ofMachine=True)]
        state = await runtime.start_container(uid, a_container("true", mounts=mounts))
        assert (state["reason"], "is not shown to pods" in state["message"]) == ("StartError", True)


async def test_the_filter_of_calls_keeps_no_honest_program_from_its_work(runtime: PodRuntime) -> None:
    script = (
        "import asyncio, multiprocessing, subprocess, threading\n"
        "thread = threading.Thread(target=print, args=('thread',), kwargs={'flush': True})\n"
        "thread.start(); thread.join()\n"
        "print(subprocess.run(['echo', 'process'], capture_output=True, text=True).stdout.strip(), flush=True)\n"
        "child = multiprocessing.get_context('fork').Process(target=print, args=('fork',), kwargs={'flush': True})\n"
        "child.start(); child.join()\n"
    )
    state, lines = await run(runtime, "python", "-c", script)
    assert (state["exitCode"], lines) == (0, ["thread", "process", "fork"])


async def test_a_pod_that_asks_for_no_filter_has_none(runtime: PodRuntime) -> None:
    for seccomp, mode in ((True, "2"), (False, "0")):
        _, lines = await run(runtime, "grep", "Seccomp:", "/proc/self/status", seccomp=seccomp)
        assert [line.split()[1] for line in lines] == [mode]
