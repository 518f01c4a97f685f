"""The shim of one pod: holds its namespaces, starts and ends its containers on request, records what became of them.

It outlives the agent that started it. The next agent finds its socket in the pod's directory; the lock that it was
started with is free only when it and all its containers have gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import Any

from gpu_runtime.local.node.shim import documents
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.container import Run
from gpu_runtime.local.node.shim.executions import Execution
from gpu_runtime.local.node.shim.forwarding import Forwarder
from gpu_runtime.local.node.shim.netlink import Netlink, without_ipv6
from gpu_runtime.local.node.shim.shapes import Sandbox
from gpu_runtime.local.node.shim.shells import Shells

SOCKET = "shim.sock"
SHM_SIZE = "64m"


def main(pod: str, ready: int) -> None:
    """Becomes the pod's shim; says `ok` or what went wrong on `ready`."""
    try:
        shim = Shim(pod)
    except (OSError, ValueError, KeyError) as error:
        os.write(ready, f"{error}\n".encode())
        return
    os.write(ready, b"ok\n")
    os.close(ready)
    shim.serve()


def enter_namespaces(sandbox: Sandbox) -> None:
    """The namespaces that the pod's containers share; the pid namespace is each container's own."""
    flags = sandbox["namespaces"] & ~sys_.CLONE_NEWPID
    user, group = os.geteuid(), os.getegid()
    network = sandbox["network"]
    machine = Netlink() if network else None
    bridge = socket.if_nametoindex(network["bridge"]) if network else 0
    if flags:
        sys_.unshare(flags)
    if flags & sys_.CLONE_NEWUSER:
        sys_.be_root_for(user, group)
    if flags & sys_.CLONE_NEWNS:
        sys_.mount("none", "/", flags=sys_.MS_REC | sys_.MS_PRIVATE)
    if flags & sys_.CLONE_NEWUTS:
        sys_.sethostname(sandbox["hostname"])
    if flags & sys_.CLONE_NEWNET:
        with Netlink() as inside:
            inside.set_up(inside.index("lo"))
        without_ipv6("default")
    if network and machine:
        machine.add_veth(network["link"], master=bridge, peer="eth0", pid=os.getpid())
        with Netlink() as inside:
            index = inside.index("eth0")
            inside.add_address(index, network["address"], network["prefix"])
            inside.set_up(index)
            inside.add_default_route(network["gateway"], index)
        machine.close()


class Shim:
    """Serves one pod until it is told to quit."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
        self.sandbox: Sandbox = documents.read(os.path.join(pod, "sandbox.json"))
        documents.write(os.path.join(pod, "shim.json"), sys_.identity())
        sys_.prctl(sys_.PR_SET_CHILD_SUBREAPER, 1)
        sys_.set_process_name("pod-shim")
        self._woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGTERM, lambda *_: self._quit())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._forwarder = Forwarder(self.sandbox["forwards"])
        enter_namespaces(self.sandbox)
        self._mount_shared()
        os.chdir(pod)  # the whole path may be longer than a socket's name can be
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(SOCKET)
        self._listener.listen()
        self._shells = Shells(isolated=bool(self.sandbox["namespaces"] & sys_.CLONE_NEWPID))
        os.chdir("/")
        self._agents: dict[int, socket.socket] = {}
        self._unread: dict[int, bytes] = {}
        self._runs: dict[tuple[str, int], Run] = {}
        self._executions: dict[int, Execution] = {}
        self._quitting = False

    def _mount_shared(self) -> None:
        if self.sandbox["root"] == "machine":
            return
        shm = os.path.join(self.pod, "shm")
        os.makedirs(shm, exist_ok=True)
        flags = sys_.MS_NOSUID | sys_.MS_NODEV
        sys_.mount("shm", shm, "tmpfs", flags | sys_.MS_NOEXEC, f"mode=1777,size={SHM_SIZE}")
        if self.sandbox["scratch"] == "memory":
            scratch = os.path.join(self.pod, "scratch")
            os.makedirs(scratch, exist_ok=True)
            sys_.mount("scratch", scratch, "tmpfs", flags, f"mode=700,size={self.sandbox['scratchSize']}")
        for volume in self.sandbox["memory"]:
            size = f",size={volume['size']}" if volume["size"] else ""
            sys_.mount("memory", volume["path"], "tmpfs", flags, f"mode=777{size}")

    def serve(self) -> None:
        while not (self._quitting and all(run.state_is_final for run in self._runs.values())):
            watched = [self._listener.fileno(), self._woken, *self._agents]
            watched += [descriptor for descriptor, each in self._executions.items() if not each.ended_output]
            watched += [descriptor for run in self._runs.values() for descriptor in run.wanted_descriptors]
            forwarded, asked = self._forwarder.interests(), self._shells.interests()
            poll = select.poll()
            for descriptor, mask in (dict.fromkeys(watched, select.POLLIN) | forwarded | asked).items():
                poll.register(descriptor, mask)
            for descriptor, _ in poll.poll(self._patience()):
                if descriptor in forwarded:
                    self._forwarder.ready(descriptor)
                elif descriptor in asked:
                    self._shells.ready(descriptor, self._runs)
                else:
                    self._ready(descriptor)
            now = time.monotonic()
            for run in self._runs.values():
                run.tick(now)
            self._executions = {key: each for key, each in self._executions.items() if each.tick(now)}
            self._shells.tick()
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.pod, SOCKET))

    def _patience(self) -> float | None:
        """Milliseconds until something is due."""
        due = [run.kill_at for run in self._runs.values() if run.kill_at is not None and not run.state_is_final]
        due += [execution.deadline for execution in self._executions.values()]
        due += self._shells.deadlines()
        # What is overdue was already requested: check again soon, not at once.
        return max(50.0, (min(due) - time.monotonic()) * 1000) if due else None

    def _ready(self, descriptor: int) -> None:
        if descriptor == self._woken:
            with contextlib.suppress(BlockingIOError):
                os.read(descriptor, 4096)
        elif descriptor == self._listener.fileno():
            agent, _ = self._listener.accept()
            self._agents[agent.fileno()] = agent
        elif descriptor in self._agents:
            self._read_agent(descriptor)
        elif descriptor in self._executions:
            self._executions[descriptor].readable()
        else:
            for run in self._runs.values():
                if descriptor in run.open_descriptors:
                    run.readable(descriptor)
                    return

    def _read_agent(self, descriptor: int) -> None:
        agent = self._agents[descriptor]
        try:
            data = agent.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._forget(descriptor)
            return
        *requests, self._unread[descriptor] = (self._unread.get(descriptor, b"") + data).split(b"\n")
        for request in requests:
            self._handle(descriptor, json.loads(request))

    def _forget(self, descriptor: int) -> None:
        self._agents.pop(descriptor).close()
        self._unread.pop(descriptor, None)

    def _send(self, descriptor: int, message: dict[str, Any]) -> None:
        if descriptor not in self._agents:
            return
        try:
            self._agents[descriptor].sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._forget(descriptor)

    def _handle(self, agent: int, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            match request["do"]:
                case "start":
                    self._start(request["container"], request["attempt"])
                case "stop":
                    self._runs[(request["container"], request["attempt"])].stop(request["grace"])
                case "execute":
                    self._execute(agent, request)
                    return
                case "list":
                    answer["runs"] = [[run.name, run.attempt, run.state] for run in self._runs.values()]
                case "quit":
                    self._quit()
        except (OSError, KeyError, ValueError) as error:
            answer["error"] = str(error) or repr(error)
        self._send(agent, answer)

    def _start(self, name: str, attempt: int) -> None:
        """Idempotent: a run that an earlier agent asked for is not started again."""
        if (name, attempt) in self._runs or self._quitting:
            return
        path = os.path.join(self.pod, "containers", name, str(attempt), "spec.json")
        self._runs[(name, attempt)] = Run(self.sandbox, self.pod, documents.read(path), self._changed)

    def _changed(self, run: Run) -> None:
        for agent in list(self._agents):
            self._send(agent, {"event": "state", "container": run.name, "attempt": run.attempt, "state": run.state})

    def _execute(self, agent: int, request: dict[str, Any]) -> None:
        run = self._runs[(request["container"], request["attempt"])]
        if run.state is None or run.state_is_final:
            raise ValueError("container not running")

        def done(code: int, output: str) -> None:
            self._send(agent, {"id": request["id"], "exitCode": code, "output": output})

        isolated = bool(self.sandbox["namespaces"] & sys_.CLONE_NEWPID)
        execution = Execution(run, isolated, request["command"], request["timeout"], done)
        self._executions[execution.descriptor] = execution

    def _quit(self) -> None:
        self._quitting = True
        for run in self._runs.values():
            run.stop(0)
