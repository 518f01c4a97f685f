"""Runs commands in containers for the API server: the client of `shim.shells`."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from gpu_runtime.local.apiserver.shells import CannotConnect, CannotStart, NotRunning, ShellRequest
from gpu_runtime.local.node.descriptors import Descriptor, Stream, readable
from gpu_runtime.local.node.records import PodFiles
from gpu_runtime.local.node.shim.copies import END_OF_INPUT
from gpu_runtime.local.node.shim.keeper import receive
from gpu_runtime.local.node.shim.shapes import InitReport
from gpu_runtime.local.node.shim.shells import NOT_RUNNING, SOCKET

STARTS_AT_ONCE = 32  # fewer than the shim's socket lets wait (`listen` in shim.shells)
ASK_SECONDS = 30.0
LONGEST_REPORT = 1 << 16


class PodShells:
    """Reaches the pods below one data directory through their shims, whether or not an agent runs."""

    def __init__(self, data_dir: Path) -> None:
        self._pods = data_dir / "pods"
        self._gate = asyncio.Semaphore(STARTS_AT_ONCE)

    async def execute(self, pod: Mapping[str, Any], request: ShellRequest) -> Command:
        files = self._files(pod)
        order = {
            "do": "execute",
            "container": request.container,
            "attempt": running_attempt(files, request.container),
            "command": request.command,
            "tty": request.tty,
        }
        with contextlib.ExitStack() as given:
            ours, theirs = ({}, []) if request.tty else _pipes(request, given)
            try:
                control, descriptors = await self._ask(files, order, theirs)
            except BaseException:
                for end in ours.values():
                    end.close()
                raise
        if descriptors:
            ours = {"stdout": Descriptor(descriptors[0])}
        return Command(control, ours, tty=request.tty)

    async def attach(self, pod: Mapping[str, Any], request: ShellRequest) -> Command:
        files = self._files(pod)
        attempt = running_attempt(files, request.container)
        order = {"do": "attach", "container": request.container, "attempt": attempt, "stdin": request.stdin}
        wanted = replace(request, stdin=False)
        with contextlib.ExitStack() as given:
            ours, theirs = _pipes(wanted, given)
            try:
                control, descriptors = await self._ask(files, order, theirs[1:])
            except BaseException:
                for end in ours.values():
                    end.close()
                raise
        return Command(control, ours, tty=request.tty, attached=[Descriptor(each) for each in descriptors])

    async def connect(self, pod: Mapping[str, Any], port: int) -> Stream:
        try:
            control, descriptors = await self._ask(self._files(pod), {"do": "connect", "port": port}, [])
        except CannotStart as error:
            raise CannotConnect(str(error)) from error
        control.close()
        return Stream(descriptors[0])

    def _files(self, pod: Mapping[str, Any]) -> PodFiles:
        return PodFiles(self._pods / str(pod["metadata"]["uid"]))

    async def _ask(
        self, files: PodFiles, order: Mapping[str, Any], streams: list[int]
    ) -> tuple[socket.socket, list[int]]:
        """Sends a request to the shim. Returns its control socket, and descriptors that came with the first report."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            async with self._gate, asyncio.timeout(ASK_SECONDS):
                with theirs:
                    await _hand_over(files, msgspec.json.encode(order), [*streams, theirs.fileno()])
                report, descriptors = await _report(ours)
        except BaseException as error:
            ours.close()
            if isinstance(error, TimeoutError):
                raise CannotStart("the container did not take the command in time") from error
            raise
        if report is None or report.get("failed") == NOT_RUNNING:
            ours.close()
            raise NotRunning
        if "failed" in report:
            ours.close()
            raise CannotStart(report["failed"])
        return ours, descriptors


class Command:
    """One running command; a `Shell`."""

    def __init__(
        self,
        control: socket.socket,
        ends: Mapping[str, Descriptor],
        *,
        tty: bool,
        attached: Sequence[Descriptor] | None = None,
    ) -> None:
        """`attached`: the input that the container's program shares with all who are attached, if it has one."""
        self._control, self._ends, self._tty, self._attached = control, ends, tty, attached
        self._input = ends.get("stdout" if tty else "stdin") if attached is None else next(iter(attached), None)
        self.outputs = {name: end for name, end in ends.items() if name != "stdin"}

    async def write(self, data: bytes) -> None:
        if self._input is not None:
            try:
                await self._input.write(data)
            except OSError:  # the command does not read any more
                self.end_input()

    def end_input(self) -> None:
        """Closes the input of the command. Does nothing on a terminal, whose input ends with a typed ^D."""
        if self._input is not None and not self._tty:
            self._input.close()
            self._input = None
            if self._attached is not None:
                with contextlib.suppress(OSError):
                    self._control.send(END_OF_INPUT)

    def resize(self, width: int, height: int) -> None:
        if self._tty and self._input is not None and self._input.number >= 0:
            fcntl.ioctl(self._input.number, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def ended(self) -> int:
        report, _ = await _report(self._control)
        # Without a report the container has ended, and all in it was killed.
        status = signal.SIGKILL if report is None else report["status"]
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def close(self) -> None:
        self._control.close()
        for end in (*self._ends.values(), *(self._attached or ())):
            end.close()


def running_attempt(files: PodFiles, container: str) -> int:
    """The number of the container's current run; NotRunning when it has none."""
    runs = sorted((run for run in files.runs() if run.name == container), key=lambda run: run.attempt)
    if not runs or runs[-1].state is None or runs[-1].state["status"] != "running":
        raise NotRunning
    return runs[-1].attempt


def _pipes(request: ShellRequest, given: contextlib.ExitStack) -> tuple[dict[str, Descriptor], list[int]]:
    """Our ends by name, and the command's three ends, which `given` closes after they were sent to the shim."""
    ours: dict[str, Descriptor] = {}
    theirs = []
    for name, wanted in (("stdin", request.stdin), ("stdout", request.stdout), ("stderr", request.stderr)):
        if wanted:
            reading, writing = os.pipe2(os.O_CLOEXEC)
            mine, other = (writing, reading) if name == "stdin" else (reading, writing)
            ours[name] = Descriptor(mine)
        else:
            other = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        given.callback(os.close, other)
        theirs.append(other)
    return ours, theirs


async def _hand_over(files: PodFiles, message: bytes, descriptors: list[int]) -> None:
    try:
        folder = os.open(files.path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise NotRunning from error
    deadline = time.monotonic() + ASK_SECONDS
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as shim:
            shim.setblocking(False)
            while True:
                try:
                    # By descriptor, because the whole path may be longer than a socket's name can be.
                    shim.connect(f"/proc/self/fd/{folder}/{SOCKET}")
                    break
                except BlockingIOError:  # too many requests wait at the shim's socket
                    if time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(0.02)
            socket.send_fds(shim, [message], descriptors)
    except (FileNotFoundError, ConnectionError) as error:
        raise NotRunning from error
    except OSError as error:
        raise CannotStart(f"the container's sandbox cannot be reached: {error}") from error
    finally:
        os.close(folder)


async def _report(control: socket.socket) -> tuple[InitReport | None, list[int]]:
    """The next report and the descriptors that came with it; None when the other side has closed the socket."""
    while True:
        try:
            data, descriptors = receive(control, LONGEST_REPORT, 1)
        except BlockingIOError:
            await readable(control.fileno())
            continue
        except ConnectionError:
            return None, []
        return (msgspec.json.decode(data, type=InitReport) if data else None), descriptors
