"""The JSON documents in a pod's directory, through which the agent and the shim exchange data."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict

RootMode = Literal["overlay", "bind", "machine"]


class Mount(TypedDict):
    """One volume at one place of a container's file system."""

    source: str
    target: str
    readOnly: bool
    subPath: str
    ofMachine: bool


class ShownFolder(TypedDict):
    """A folder of the machine that a container sees although what is around it is hidden."""

    path: str
    writable: bool


class MemoryVolume(TypedDict):
    """A directory of the pod that the shim covers with a tmpfs before the first container starts."""

    path: str
    size: int


class Network(TypedDict):
    """The pod's end and the machine's end of its link."""

    bridge: str
    link: str
    address: str
    prefix: int
    gateway: str


class Forward(TypedDict):
    """Connections to `listen` on the machine reach `port` inside the pod."""

    listen: str
    port: int


class Sandbox(TypedDict):
    """`sandbox.json`: what the containers of a pod share."""

    hostname: str
    namespaces: int
    root: RootMode
    scratch: Literal["disk", "memory"]
    scratchSize: int
    memory: list[MemoryVolume]
    network: Network | None
    forwards: list[Forward]
    userxattr: bool


class Container(TypedDict):
    """`spec.json`: one run of one container, everything resolved."""

    name: str
    attempt: int
    command: list[str]
    env: dict[str, str]
    workingDir: str
    stdin: bool
    stdinOnce: bool
    tty: bool
    mounts: list[Mount]
    homes: list[str]
    masked: list[str]
    shown: list[ShownFolder]
    kept: list[str]
    devices: list[str]
    readOnlyRoot: bool
    user: int
    group: int
    groups: list[int]
    capabilities: list[int]
    seccomp: bool
    cgroups: list[str]
    openFiles: int
    processes: int
    terminationPath: str
    logBytes: int
    logFiles: int


class ContainerState(TypedDict):
    """`state.json`: what became of one run. Times are seconds since 1970; `exitCode` is -1 while it runs."""

    status: Literal["running", "exited"]
    startedAt: float
    finishedAt: float
    exitCode: int
    signal: int
    reason: str
    message: str


class InitReport(TypedDict, total=False):
    """The report of a container's init to the shim: the program runs, could not start, or has ended."""

    started: bool
    failed: str
    status: int


class Launch(NamedTuple):
    """Everything that one run of one container starts from: `layer` is where it may write, `output` its two pipes."""

    sandbox: Sandbox
    container: Container
    pod: str
    layer: str
    output: tuple[int, int]
    input: int = -1
