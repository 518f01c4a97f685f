"""What a pod sees of the machine, of its volumes and of other pods."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from pathlib import Path

import pytest

from equipment.privileges import needs_root
from equipment.waiting import eventually, eventually_sync
from gpu_runtime.local.node.gpus import NotEnoughGpus
from gpu_runtime.local.node.hosts import ServiceName
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.specs import Mount, PodSpec
from local.node.pods import a_container, a_pod, log_text, run


def fetch(address: str) -> str:
    """The page at port 8080 of a pod, as soon as it is served."""

    def page() -> str:
        try:
            with urllib.request.urlopen(f"http://{address}:8080/name", timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except OSError as error:
            raise AssertionError(str(error)) from error

    return eventually_sync(page)


def address_of(runtime: PodRuntime, uid: str) -> str:
    sandbox = runtime.get(uid)
    assert sandbox
    return sandbox.address


def links_with_ipv6() -> set[str]:
    known = Path("/proc/net/if_inet6")
    return {line.split()[-1] for line in known.read_text().splitlines()} if known.exists() else set()


def there(path: str) -> bool:
    return Path(path).exists()


def content(path: str) -> bytes:
    return Path(path).read_bytes()


SERVE = "mkdir -p /site && echo $HOSTNAME > /site/name && cd /site && exec python -m http.server 8080"


@needs_root("pods have no address of their own and cannot call out")
async def test_two_pods_serve_one_port_each_on_its_own_address(runtime: PodRuntime) -> None:
    first, second = await a_pod(runtime), await a_pod(runtime)
    for uid in (first, second):
        await runtime.start_container(uid, a_container("sh", "-c", SERVE))
    for uid in (first, second):
        assert await asyncio.to_thread(fetch, address_of(runtime, uid)) == f"{uid}\n"


@needs_root("pods have no address of their own and cannot call out")
async def test_a_pod_reaches_another_by_its_services_name(runtime: PodRuntime) -> None:
    server, client = await a_pod(runtime), await a_pod(runtime)
    await runtime.start_container(server, a_container("sh", "-c", SERVE))
    await asyncio.to_thread(fetch, address_of(runtime, server))
    await runtime.start_container(client, a_container("sleep", "3600"))
    runtime.set_services([ServiceName("default", "web", address_of(runtime, server))])
    for name in ("web", "web.default", "web.default.svc.cluster.local"):
        script = f"import urllib.request; print(urllib.request.urlopen('http://{name}:8080/name').read().decode())"
        assert await runtime.execute(client, "main", 0, ["python", "-c", script], 60) == (0, f"{server}\n\n")


async def test_a_pods_link_sends_nothing_unasked_to_all_others(runtime: PodRuntime) -> None:
    """What IPv6 sends when a link comes up would go to every port of the bridge; loopback keeps its IPv6."""
    _, lines = await run(runtime, "cat", "/proc/net/if_inet6")
    assert {line.split()[-1] for line in lines} <= {"lo"}
    assert runtime.network.bridge not in links_with_ipv6()


async def test_what_is_written_to_a_volume_is_read_by_the_pods_successor(runtime: PodRuntime, data_dir: Path) -> None:
    volume = data_dir / "volumes" / "claim"
    volume.mkdir(parents=True)
    mount = Mount(source=str(volume), target="/workspace/cache/deep")
    assert not there("/workspace/cache")
    await run(runtime, "sh", "-c", "echo kept > /workspace/cache/deep/file", mounts=[mount])
    for sandbox in runtime.pods():
        await runtime.remove_pod(sandbox.spec.uid)
    _, lines = await run(runtime, "cat", "/workspace/cache/deep/file", mounts=[mount])
    assert lines == ["kept"]
    assert not there("/workspace/cache")


async def test_a_read_only_volume_and_a_sub_path_are_honoured(runtime: PodRuntime, data_dir: Path) -> None:
    volume = data_dir / "volumes" / "claim"
    (volume / "inner").mkdir(parents=True)
    (volume / "inner" / "file").write_text("inside")
    mounts = [
        Mount(source=str(volume), target="/whole", readOnly=True),
        Mount(source=str(volume), target="/part", subPath="inner"),
        Mount(source=str(volume / "inner" / "file"), target="/etc/one-file.conf", readOnly=True),
    ]
    script = "cat /part/file /etc/one-file.conf; echo; echo x > /part/new && ls /whole/inner; touch /whole/y"
    _, lines = await run(runtime, "sh", "-c", script, mounts=mounts)
    *words, refused = sorted(lines)
    assert words == ["file", "insideinside", "new"]
    assert refused.startswith("touch: ")
    assert refused.endswith("Read-only file system")


async def test_a_sub_path_that_leads_out_of_its_volume_fails_the_container(runtime: PodRuntime, data_dir: Path) -> None:
    volume = data_dir / "volumes" / "claim"
    volume.mkdir(parents=True)
    (volume / "link").symlink_to("/")
    for path in ("../..", "link"):
        uid = await a_pod(runtime)
        mounts = [Mount(source=str(volume), target="/stolen", subPath=path)]
        state = await runtime.start_container(uid, a_container("ls", "/stolen", mounts=mounts))
        assert (state["reason"], 'failed to mount at "/stolen"' in state["message"]) == ("StartError", True)


async def test_a_memory_volume_is_shared_by_the_containers_of_a_pod_and_bounded(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime, memoryVolumes={"fast": 1 << 20})
    mounts = [Mount(source=str(runtime.files(uid).volume("fast")), target="/fast")]
    await runtime.start_container(uid, a_container("sh", "-c", "echo shared > /fast/file", name="one", mounts=mounts))
    await runtime.wait_container(uid, "one", 0)
    script = "cat /fast/file; head -c 4m /dev/zero > /fast/big 2>/dev/null || echo full; stat -f -c %T /fast"
    await runtime.start_container(uid, a_container("sh", "-c", script, name="two", mounts=mounts))
    await runtime.wait_container(uid, "two", 0)
    assert log_text(runtime, uid, "two") == ["shared", "full", "tmpfs"]


@needs_root("a pod writes only where the user may")
async def test_a_pod_sees_the_machine_but_writes_only_to_its_own_layer(runtime: PodRuntime, data_dir: Path) -> None:
    places = [
        "/usr/local/pod-was-here",
        "/etc/pod-was-here",
        "/var/tmp/pod-was-here",
        "/pod-was-here",
        "/tmp/pod-was-here",
    ]
    before = content("/etc/passwd")
    script = "; ".join([f"echo x > {place} && echo ok" for place in places] + ["echo x:x >> /etc/passwd"])
    state, lines = await run(runtime, "sh", "-c", script + "; test -x /usr/bin/env && echo image")
    assert state["exitCode"] == 0
    assert lines[:5] == ["ok"] * 5
    assert lines[-1] == "image"
    assert not [place for place in places if there(place)]
    assert content("/etc/passwd") == before


async def test_the_data_directory_and_other_pods_are_invisible(runtime: PodRuntime, data_dir: Path) -> None:
    (data_dir / "secret").write_text("hush")
    other = await a_pod(runtime)
    await runtime.start_container(other, a_container("sleep", "3600"))
    script = f"ls -A {data_dir} | wc -l; cat {data_dir}/secret; echo /proc/[0-9]*; touch {data_dir}/x"
    _, lines = await run(runtime, "sh", "-c", script)
    assert sorted(lines) == sorted([
        "0",
        f"cat: {data_dir}/secret: No such file or directory",
        "/proc/1 /proc/2",
        f"touch: cannot touch '{data_dir}/x': Read-only file system",
    ])  # fmt: skip


@pytest.mark.parametrize(
    "action",
    [
        "mknod /disk b 254 0",
        "mount -t tmpfs none /mnt",
        "echo 1 > /proc/sys/kernel/panic",
        "echo b > /proc/sysrq-trigger",
        "hostname other",
        "ip link set eth0 down",
        "nsenter -t 1 -m true",
        "unshare -m true",
        "kill -9 1 && ls /proc/2/root/nothing",
    ],
)
async def test_a_pod_cannot_touch_the_machine(runtime: PodRuntime, action: str) -> None:
    state, _ = await run(runtime, "sh", "-c", f"{action} 2>/dev/null && echo DONE || exit 42")
    assert state["exitCode"] == 42


async def test_a_pod_has_its_own_name_and_files_for_names(runtime: PodRuntime) -> None:
    uid = await a_pod(runtime, hostname="worker-7", namespace="team")
    await runtime.start_container(
        uid, a_container("sh", "-c", "uname -n; cat /etc/hostname; grep search /etc/resolv.conf; cat /etc/hosts")
    )
    await runtime.wait_container(uid, "main", 0)
    lines = log_text(runtime, uid)
    assert lines[:3] == ["worker-7", "worker-7", "search team.svc.cluster.local svc.cluster.local cluster.local"]
    assert f"{address_of(runtime, uid)}\tworker-7" in lines


async def test_a_gpu_is_never_in_two_containers(runtime: PodRuntime) -> None:
    first = await a_pod(runtime, gpus={"a": 2, "b": 1})
    with pytest.raises(NotEnoughGpus, match="Requested: 2, Available: 1"):
        await a_pod(runtime, gpus={"main": 2})
    second = await a_pod(runtime, gpus={"main": 1})
    held = [ids for uid in (first, second) if (pod := runtime.get(uid)) for ids in pod.gpus.values()]
    assert sorted(gpu for ids in held for gpu in ids) == ["0", "1", "2", "3"]
    await runtime.start_container(
        first, a_container("sh", "-c", "echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES", name="a")
    )
    await runtime.wait_container(first, "a", 0)
    assert log_text(runtime, first, "a") == ["0,1 0,1"]
    await runtime.stop_pod(first)
    assert await a_pod(runtime, gpus={"main": 3})


async def test_a_pod_without_gpus_sees_none(runtime: PodRuntime) -> None:
    _, lines = await run(runtime, "sh", "-c", "echo [$CUDA_VISIBLE_DEVICES] $NVIDIA_VISIBLE_DEVICES")
    assert lines == ["[] void"]


async def test_a_pod_whose_shim_was_killed_is_gone_with_all_its_processes(runtime: PodRuntime, data_dir: Path) -> None:
    uid = await a_pod(runtime)
    await runtime.start_container(
        uid, a_container("sh", "-c", "trap '' TERM HUP INT; sleep 3600", env={"DATA_DIR": str(data_dir)})
    )
    shim = runtime.files(uid).shim()
    assert shim
    os.kill(shim.pid, 9)
    await eventually(lambda: not (pod := runtime.get(uid)) or not pod.alive, what="the loss to be seen")
    await runtime.stop_pod(uid)
    pod = runtime.get(uid)
    assert pod
    state = pod.runs[0].state
    assert state
    assert (state["exitCode"], state["reason"]) == (255, "Unknown")
    again = await runtime.run_pod(PodSpec(uid=uid, namespace="default", name=uid))
    assert again.alive
