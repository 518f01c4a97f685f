"""The pod runtime: runs pods as sandboxed process trees of this machine and finds them again after a crash of its own.

Every step is recorded before it is made. Pods outlive the runtime's process; the next process adopts running pods and
removes incomplete ones.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from gpu_runtime.local.node import gpus as gpu_devices
from gpu_runtime.local.node import network
from gpu_runtime.local.node.capabilities import Capabilities
from gpu_runtime.local.node.cgroups import Cgroups, open_cgroups
from gpu_runtime.local.node.gpus import Gpu
from gpu_runtime.local.node.hidden import Hidden, ShownFolder, hidden_places
from gpu_runtime.local.node.hosts import ServiceName, write_hosts, write_own_name
from gpu_runtime.local.node.network import PodNetwork
from gpu_runtime.local.node.pod import Pod
from gpu_runtime.local.node.records import BrokenRecord, PodFiles, PodRecord
from gpu_runtime.local.node.shim import documents, shapes
from gpu_runtime.local.node.shim.shapes import ContainerState
from gpu_runtime.local.node.shim_documents import Limits, container_document, hostname, sandbox_document
from gpu_runtime.local.node.specs import Change, ContainerSpec, PodSandbox, PodSpec
from gpu_runtime.local.node.zygote_client import SandboxFailed, Zygote
from gpu_runtime.local.removal import remove_tree


class AlreadyRunning(Exception):
    """Another agent works on this data directory."""


class UnknownPod(Exception):
    """No pod of this uid, or its sandbox has ended."""


class PodRuntime:
    """Runs pods below one data directory. Use as `async with`; leaving it leaves the pods running."""

    def __init__(
        self,
        data_dir: Path,
        capabilities: Capabilities,
        *,
        gpus: Iterable[Gpu] = (),
        shown: Iterable[ShownFolder] = (),
        limits: Limits | None = None,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self.capabilities, self.limits = capabilities, limits or Limits()
        self.gpus = list(gpus)
        found = hidden_places()
        self._hidden = Hidden(found.homes, [str(self.data_dir), *found.masked])
        self._shown = list(shown)
        self._id = hashlib.sha256(str(self.data_dir).encode()).hexdigest()[:8]
        self.bridge = f"gr-{self._id}"
        self._pods: dict[str, Pod] = {}
        self._zygote = Zygote()
        self._services: list[ServiceName] = []
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._last_address = ""
        self.network = PodNetwork("", str(network.LOOPBACK))
        self.cgroups = Cgroups({}, unified=False)
        self._lock = -1

    async def __aenter__(self) -> Self:
        node = self.data_dir / "node"
        node.mkdir(parents=True, exist_ok=True)
        self.data_dir.chmod(0o700)
        self._lock = os.open(node / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise AlreadyRunning(f"another node agent uses {self.data_dir}") from None
        if self.capabilities.network == "bridge":
            self.network = network.open_bridge(node / "network.json", self.bridge)
        self.cgroups = open_cgroups(f"gpu-runtime-{self._id}", node / "cgroups.json")
        await self._adopt()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pod in self._pods.values():
            if pod.client:
                await pod.client.close()
        self._zygote.close()
        os.close(self._lock)

    async def shutdown(self, grace: float = 0) -> None:
        """Ends every pod and takes the network and the cgroups down: as a machine that is switched off.

        Programs get SIGTERM and `grace` seconds first.
        """
        if grace > 0:
            running = [(pod.spec.uid, run) for pod in self.pods() if pod.alive for run in pod.runs if run.running]
            stops = [self.stop_container(uid, run.name, run.attempt, grace) for uid, run in running]
            await asyncio.gather(*stops, return_exceptions=True)
        await asyncio.gather(*(self.stop_pod(uid) for uid in list(self._pods)))
        if self.network.bridge:
            await asyncio.to_thread(network.delete_link, self.network.bridge)
        await asyncio.to_thread(self.cgroups.close)

    # -- pods

    async def run_pod(self, spec: PodSpec) -> PodSandbox:
        """Makes the pod's sandbox; one that is alive already is returned as it is."""
        pod = self._pods.get(spec.uid)
        if pod and pod.alive:
            return pod.observed()
        if pod:
            await self.stop_pod(spec.uid)
        files = self._files(spec.uid)
        record = PodRecord(
            spec=spec,
            phase="creating",
            createdAt=time.time(),
            address=self._choose_address(),
            link=self._link(spec.uid),
            gpus=self._choose_gpus(spec),
        )
        files.write(record)
        pod = self._pods[spec.uid] = Pod(files, record, self._notifier(spec.uid))
        try:
            self._prepare(pod)
            await self._start_shim(pod)
        except BaseException:
            await self.stop_pod(spec.uid)
            raise
        pod.update(phase="ready")
        return pod.observed()

    async def stop_pod(self, uid: str) -> None:
        """Ends the pod's processes at once and frees what it held; logs, exit codes and volumes stay."""
        pod = self._pod(uid)
        if pod.record.phase == "stopped":
            return
        await pod.quit()
        pod.write_off()
        if pod.client:
            await pod.client.close()
            pod.client = None
        if pod.record.link and self.network.bridge:
            await asyncio.to_thread(network.delete_link, pod.record.link)
        await asyncio.to_thread(self.cgroups.remove, uid)
        pod.update(phase="stopped", link="", gpus={})
        self._changes.put_nowait(Change(uid))

    async def remove_pod(self, uid: str) -> None:
        """Ends the pod and removes everything that it left on this machine but its persistent volumes."""
        if uid not in self._pods:
            return
        await self.stop_pod(uid)
        await asyncio.to_thread(remove_tree, self._pods.pop(uid).files.path)

    def get(self, uid: str) -> PodSandbox | None:
        pod = self._pods.get(uid)
        return pod.observed() if pod else None

    def pods(self) -> list[PodSandbox]:
        return [pod.observed() for pod in self._pods.values()]

    def called(self, namespace: str, name: str) -> list[str]:
        """The uids of the pods with this name: two while one ends and its successor starts."""
        specs = (pod.record.spec for pod in self._pods.values())
        return [spec.uid for spec in specs if spec.name == name and spec.namespace == namespace]

    async def changes(self) -> AsyncIterator[Change]:
        """The pods that change from now on; `get` returns their new state."""
        while True:
            yield await self._changes.get()

    # -- containers

    async def start_container(self, uid: str, spec: ContainerSpec) -> ContainerState:
        """Starts one run and returns when the program runs, or with `exited` when it could not be started."""
        pod = self._living(uid)
        directory = pod.files.run(spec.name, spec.attempt)
        if (spec.name, spec.attempt) not in pod.states:
            await self._forget_earlier(pod, spec)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "termination-log").touch(0o666)
            (directory / "termination-log").chmod(0o666)
            documents.write(str(directory / "spec.json"), self._container_document(pod, spec))
            pod.states[(spec.name, spec.attempt)] = None
        assert pod.client
        await pod.client.ask("start", container=spec.name, attempt=spec.attempt)
        return await pod.wait(spec.name, spec.attempt, ended=False)

    async def ask_to_stop(self, uid: str, name: str, attempt: int, grace: float) -> None:
        """Sends SIGTERM, and SIGKILL after `grace` seconds, even if this process ends before that.

        A repeated call sends no second SIGTERM, but a shorter grace counts.
        """
        pod = self._living(uid)
        assert pod.client
        await pod.client.ask("stop", container=name, attempt=attempt, grace=grace)

    async def stop_container(self, uid: str, name: str, attempt: int, grace: float) -> ContainerState:
        """Like `ask_to_stop`, but returns when the container has ended."""
        await self.ask_to_stop(uid, name, attempt, grace)
        return await self._pod(uid).wait(name, attempt, ended=True)

    async def wait_container(self, uid: str, name: str, attempt: int) -> ContainerState:
        return await self._pod(uid).wait(name, attempt, ended=True)

    async def execute(
        self, uid: str, name: str, attempt: int, command: list[str], timeout: float
    ) -> tuple[int | None, str]:
        """Runs a command in a running container: its exit code (None past the timeout) and the start of its output."""
        pod = self._living(uid)
        assert pod.client
        answer = await pod.client.ask("execute", container=name, attempt=attempt, command=command, timeout=timeout)
        return (None if answer.exitCode < 0 else answer.exitCode), answer.output

    def set_services(self, services: Iterable[ServiceName]) -> None:
        """Makes Service names resolve in every pod, running or yet to come."""
        self._services = sorted(services)
        for pod in self._pods.values():
            if pod.record.phase != "stopped":
                self._write_hosts(pod)

    def hides(self, path: Path) -> bool:
        """Whether the path is hidden from pods."""
        return self._hidden.hides(path, self._shown)

    def files(self, uid: str) -> PodFiles:
        """Where the pod's logs and volumes lie, also before it runs."""
        return self._files(uid)

    # -- within

    def _files(self, uid: str) -> PodFiles:
        return PodFiles(self.data_dir / "pods" / uid)

    def _link(self, uid: str) -> str:
        return f"gr{hashlib.sha256((self._id + uid).encode()).hexdigest()[:12]}"

    def _pod(self, uid: str) -> Pod:
        if uid not in self._pods:
            raise UnknownPod(uid)
        return self._pods[uid]

    def _living(self, uid: str) -> Pod:
        pod = self._pod(uid)
        if not pod.alive:
            raise UnknownPod(uid)
        return pod

    def _notifier(self, uid: str) -> Callable[[], None]:
        return lambda: self._changes.put_nowait(Change(uid))

    def _choose_address(self) -> str:
        held = [pod.record.address for pod in self._pods.values() if pod.record.phase != "stopped"]
        self._last_address = network.choose_address(self.network, held, self._last_address)
        return self._last_address

    def _choose_gpus(self, spec: PodSpec) -> dict[str, list[str]]:
        held = (pod.record.gpus for pod in self._pods.values())
        return gpu_devices.allocate(self.gpus, held, spec.gpus, spec.gpusGivenBack)

    def _write_hosts(self, pod: Pod) -> None:
        spec = pod.record.spec
        write_hosts(pod.files.etc, pod.record.address, hostname(spec), spec.namespace, self._services)

    def _prepare(self, pod: Pod) -> None:
        """The pod's directory as its shim expects it."""
        files, spec = pod.files, pod.record.spec
        for folder in (files.etc, *(files.volume(name) for name in spec.memoryVolumes)):
            folder.mkdir(parents=True, exist_ok=True)
        self._write_hosts(pod)
        write_own_name(files.etc, hostname(spec), spec.namespace)
        sandbox = sandbox_document(files, pod.record, self.capabilities, self.network, self.limits)
        documents.write(str(files.path / "sandbox.json"), sandbox)

    async def _start_shim(self, pod: Pod) -> None:
        lock = pod.files.lock()
        if lock is None:
            raise SandboxFailed("processes of an earlier sandbox of this pod are still there")
        try:
            await self._zygote.start_shim(pod.files.path, lock)
        finally:
            os.close(lock)
        if not await pod.connect():
            raise SandboxFailed("the pod's shim ended as soon as it had started")

    async def _forget_earlier(self, pod: Pod, spec: ContainerSpec) -> None:
        """Removes the file system layer of the previous run, and all files of the runs before it."""
        for name, attempt in list(pod.states):
            if name != spec.name or attempt >= spec.attempt:
                continue
            directory = pod.files.run(name, attempt)
            await asyncio.to_thread(remove_tree, directory / "layer")
            if attempt < spec.attempt - 1:
                await asyncio.to_thread(remove_tree, directory)
                pod.files.remove_logs(name, attempt)
                del pod.states[(name, attempt)]

    def _container_document(self, pod: Pod, spec: ContainerSpec) -> shapes.Container:
        held = pod.record.gpus.get(spec.name, [])
        return container_document(
            pod.files,
            pod.record.spec,
            spec,
            self.capabilities,
            self.limits,
            hidden=self._hidden,
            shown=self._shown,
            variables=gpu_devices.environment(self.gpus, held) if self.gpus else {},
            devices=gpu_devices.devices(self.gpus, held),
            cgroups=self.cgroups.create(
                pod.record.spec.uid, spec.name, memory=spec.memoryBytes, processes=self.limits.processes
            ),
        )

    async def _adopt(self) -> None:
        """Finds the pods of an earlier agent: those that run are taken over, those that ended are written off."""
        folder = self.data_dir / "pods"
        folder.mkdir(exist_ok=True)
        for path in sorted(folder.iterdir()):
            files = PodFiles(path)
            try:
                record = files.read()
            except BrokenRecord as broken:
                await self._give_up(files, broken)
                continue
            if record is None:
                await asyncio.to_thread(remove_tree, path)
                continue
            uid = record.spec.uid
            pod = self._pods[uid] = Pod(files, record, self._notifier(uid))
            if record.phase == "stopped":
                continue
            found = await pod.connect()
            # One that was being made has started nothing yet: making it anew is simpler than finishing it.
            if not found or record.phase == "creating":
                await self.stop_pod(uid)
            else:
                self._last_address = record.address
                self._changes.put_nowait(Change(uid))

    async def _give_up(self, files: PodFiles, broken: BrokenRecord) -> None:
        """Ends a pod whose record cannot be decoded. If the pod is still wanted, it is made again."""
        uid = files.path.name
        structlog.get_logger("node").warning("ending a pod whose record cannot be read", pod=uid, why=str(broken))
        spec = PodSpec(uid=uid, namespace="", name=uid)
        record = PodRecord(spec=spec, phase="creating", link=self._link(uid))
        pod = self._pods[uid] = Pod(files, record, self._notifier(uid))
        await pod.connect()
        await self.remove_pod(uid)
