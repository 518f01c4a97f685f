"""A pod runtime as an ordinary user has it: runs some pods and prints what became of them.

With `--without-user-namespaces` it first enters one in which no further ones may be made, as where they are forbidden.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu_runtime.local.apiserver.shells import ShellRequest
from gpu_runtime.local.node.capabilities import decide, probe
from gpu_runtime.local.node.gpus import simulated
from gpu_runtime.local.node.runtime import PodRuntime
from gpu_runtime.local.node.shells import PodShells
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.specs import ContainerSpec, Mount, PodSpec

SERVE = "mkdir -p $DIR && cd $DIR && echo $HOSTNAME > name && exec python3 -m http.server $PORT --bind 0.0.0.0"


def free_port() -> int:
    """One that nobody on this machine has, nor is given for an outgoing connection: plain pods share its network."""
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as probe_, suppress(OSError):
            probe_.bind(("0.0.0.0", port))
            return port


PORT = free_port()


def forbid_user_namespaces() -> None:
    user, group = os.getuid(), os.getgid()
    sys_.unshare(sys_.CLONE_NEWUSER)
    for name, content in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(content)
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    # Executing again as an ordinary user gives up the capabilities that the namespace came with.
    os.execv(sys.executable, [sys.executable, __file__, *[word for word in sys.argv[1:] if not word.startswith("--")]])


def fetch(address: str) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://{address}:{PORT}/name", timeout=5) as answer:
                text: str = answer.read().decode()
                return text.strip()
        except OSError:
            time.sleep(0.02)
    return "no answer"


async def serve(runtime: PodRuntime, name: str, directory: str) -> dict[str, Any]:
    pod = await runtime.run_pod(PodSpec(uid=name, namespace="default", name=name, ports=[PORT], gpus={"main": 1}))
    spec = ContainerSpec(name="main", attempt=0, command=["sh", "-c", SERVE], env={"DIR": directory, "PORT": str(PORT)})
    await runtime.start_container(name, spec)
    return {"address": pod.address, "gpus": pod.gpus}


async def entered(data_dir: Path, uid: str) -> dict[str, Any]:
    """What a person sees who runs commands in a pod, with and without a terminal, and reaches a port of it."""
    shells, pod = PodShells(data_dir), {"metadata": {"uid": uid}}
    seen: dict[str, Any] = {}
    for name, tty in (("plain", False), ("terminal", True)):
        command = ("sh", "-c", "id -u; cat name; tty; exit 3")
        shell = await shells.execute(
            pod, ShellRequest("main", ("sh", "-c", 'cd "$DIR"; exec "$@"', "", *command), stdout=True, tty=tty)
        )
        said = b""
        while piece := await shell.outputs["stdout"].read():
            said += piece
        seen[name] = [said.decode().split(), await shell.ended()]
        shell.close()
    connection = await shells.connect(pod, PORT)
    await connection.write(b"GET /name HTTP/1.0\r\n\r\n")
    heard = b""
    while piece := await connection.read():
        heard += piece
    connection.close()
    return {**seen, "port": heard.decode().split()[-1]}


async def main(data_dir: Path) -> None:
    capabilities = decide(probe(data_dir))
    answer: dict[str, Any] = {"root": capabilities.root, "said": capabilities.describe()}
    volume = data_dir / "volume"
    volume.mkdir()
    async with PodRuntime(data_dir, capabilities, gpus=simulated(4)) as runtime:
        site = str(data_dir / "site") if capabilities.root == "machine" else "/site"
        first = await serve(runtime, "first", site)
        answer["first"] = {**first, "page": await asyncio.to_thread(fetch, first["address"])}
        answer["entered"] = await entered(data_dir, "first")
        await serve(runtime, "second", site)
        second = runtime.get("second")
        assert second
        if capabilities.root == "machine":
            answer["second"] = await runtime.wait_container("second", "main", 0)
        else:
            answer["second"] = {"page": await asyncio.to_thread(fetch, second.address)}
        mounts = [Mount(source=str(volume), target="/workspace/cache")]
        command = ["sh", "-c", "echo kept > /workspace/cache/file; touch /etc/mine; (sleep 3600 &) ; exit 4"]
        await runtime.run_pod(PodSpec(uid="writer", namespace="default", name="writer"))
        await runtime.start_container("writer", ContainerSpec(name="main", attempt=0, command=command, mounts=mounts))
        answer["writer"] = await runtime.wait_container("writer", "main", 0)
        answer["volume"] = [path.name for path in volume.iterdir()]
        await runtime.run_pod(PodSpec(uid="plain", namespace="default", name="plain"))
        command = ["sh", "-c", "(setsid sleep 3600 &) ; sleep 3600"]
        await runtime.start_container("plain", ContainerSpec(name="main", attempt=0, command=command))
        answer["stopped"] = await runtime.stop_container("plain", "main", 0, grace=60)
        await runtime.shutdown()
        for pod in runtime.pods():
            await runtime.remove_pod(pod.spec.uid)
    answer["left"] = [path.name for path in (data_dir / "pods").iterdir()]
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    if "--without-user-namespaces" in sys.argv:
        forbid_user_namespaces()
    asyncio.run(main(Path(sys.argv[1])))
