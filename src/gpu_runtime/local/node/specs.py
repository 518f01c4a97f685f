"""The specs that the pod runtime gets and the states that it reports. Knows nothing of API objects."""

from __future__ import annotations

import msgspec

from gpu_runtime.local.node.shim.shapes import ContainerState
from gpu_runtime.local.node.shim.syscalls import KEPT_CAPABILITIES


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A file or directory at one place of a container; `ofMachine`: not made for pods, so hidden paths are refused."""

    source: str
    target: str
    readOnly: bool = False
    subPath: str = ""
    ofMachine: bool = False


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one container: a restart is the next `attempt`. `command` is the whole argument list, expanded."""

    name: str
    attempt: int
    command: list[str]
    env: dict[str, str] = {}
    stdin: bool = False
    stdinOnce: bool = False
    tty: bool = False
    workingDir: str = "/"
    mounts: list[Mount] = []
    readOnlyRoot: bool = False
    user: int = 0
    group: int = 0
    groups: list[int] = []
    capabilities: tuple[int, ...] = tuple(sorted(KEPT_CAPABILITIES))
    seccomp: bool = True
    memoryBytes: int = 0
    terminationPath: str = "/dev/termination-log"


class PodSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the containers of a pod share: `gpus` counts by container, `memoryVolumes` bytes by name (0: unbounded).

    `gpus` is in the order of starting; containers in `gpusGivenBack` end before the next one starts.
    """

    uid: str
    namespace: str
    name: str
    hostname: str = ""
    hostNetwork: bool = False
    gpus: dict[str, int] = {}
    gpusGivenBack: list[str] = []
    memoryVolumes: dict[str, int] = {}
    ports: list[int] = []


class ContainerRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run as observed; `state` is None between the request and the program's first instruction."""

    name: str
    attempt: int
    state: ContainerState | None = None

    @property
    def running(self) -> bool:
        """Whether it may have a process."""
        return self.state is None or self.state["status"] == "running"


class PodSandbox(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as observed. Not alive: its processes are gone, its logs and exit codes are still there."""

    spec: PodSpec
    alive: bool
    createdAt: float
    address: str
    gpus: dict[str, list[str]]
    runs: list[ContainerRun]

    def latest(self, container: str) -> ContainerRun | None:
        runs = [run for run in self.runs if run.name == container]
        return max(runs, key=lambda run: run.attempt, default=None)


class Change(msgspec.Struct, frozen=True):
    """The state of this pod has changed."""

    uid: str
