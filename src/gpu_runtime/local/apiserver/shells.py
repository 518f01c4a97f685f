"""Commands in containers (`kubectl exec`): the interface between the API server and the code that runs containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gpu_runtime.local.apiserver.records import Object


class NotRunning(Exception):
    """The container does not run (yet, or any more)."""


class CannotStart(Exception):
    """The command cannot be executed; the message is in the words of a container runtime."""


class CannotConnect(Exception):
    """Nothing inside the pod takes the connection; the message is the kernel's reason."""


@dataclass(frozen=True)
class ShellRequest:
    """A command in a container, and which of its streams the client wants to hold."""

    container: str
    command: tuple[str, ...]
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class Readable(Protocol):
    async def read(self) -> bytes:
        """The next bytes, at least one; b"" at the end."""
        ...


class Shell(Protocol):
    """One running command. Closing it ends the command and everything that it started."""

    @property
    def outputs(self) -> Mapping[str, Readable]:
        """The output streams by name: stdout and stderr."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when the command can take more. Data is dropped when the command no longer reads."""
        ...

    def end_input(self) -> None: ...

    def resize(self, width: int, height: int) -> None: ...

    async def ended(self) -> int:
        """Waits for the command's exit code; 128 + the signal's number if a signal killed it."""
        ...

    def close(self) -> None: ...


class Connection(Readable, Protocol):
    """A connection to a port inside a pod."""

    async def write(self, data: bytes) -> None: ...

    def end_input(self) -> None: ...

    def close(self) -> None: ...


class ShellSource(Protocol):
    async def execute(self, pod: Object, request: ShellRequest) -> Shell:
        """Raises NotRunning or CannotStart."""
        ...

    async def attach(self, pod: Object, request: ShellRequest) -> Shell:
        """The output of the container's own program from now on. Raises NotRunning."""
        ...

    async def connect(self, pod: Object, port: int) -> Connection:
        """Raises NotRunning or CannotConnect."""
        ...
