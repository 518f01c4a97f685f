"""The pod runtime's records: one directory a pod, written before each step, so that a crash leaves nothing unknown.

pods/<uid>/record.json                      what the pod was given: address, GPUs, link, phase
           sandbox.json lock shim.*         between the agent and the pod's shim
           etc/ volumes/<name>/ shm/        shared by its containers
           logs/<container>/<attempt>.log   current; .log.1, .log.2, ... rotated
           containers/<container>/<attempt>/{spec,state}.json, termination-log, layer/
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Literal

import msgspec

from gpu_runtime.local.node.recorded import recorded
from gpu_runtime.local.node.shim import documents
from gpu_runtime.local.node.shim.shapes import ContainerState
from gpu_runtime.local.node.specs import ContainerRun, PodSpec
from gpu_runtime.supervisor.identity import Identity

Phase = Literal["creating", "ready", "stopped"]


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod holds of this machine. A `stopped` pod holds nothing: its address is free for others."""

    spec: PodSpec
    phase: Phase
    address: str = ""
    link: str = ""
    gpus: dict[str, list[str]] = {}
    createdAt: float = 0.0


class BrokenRecord(Exception):
    """The record of a pod cannot be decoded."""


class PodFiles:
    """The directory of one pod."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record_path = path / "record.json"
        self.lock_path = path / "lock"
        self.etc = path / "etc"

    def volume(self, name: str) -> Path:
        return self.path / "volumes" / name

    def run(self, container: str, attempt: int) -> Path:
        return self.path / "containers" / container / str(attempt)

    def log(self, container: str, attempt: int) -> Path:
        return self.path / "logs" / container / f"{attempt}.log"

    def remove_logs(self, container: str, attempt: int) -> None:
        """Removes the log of one run, rotated parts included."""
        for log in self.log(container, attempt).parent.glob(f"{attempt}.log*"):
            log.unlink()

    def read(self) -> PodRecord | None:
        """None when the directory was made and the record was not: nothing else was made either."""
        try:
            return msgspec.json.decode(self.record_path.read_bytes(), type=PodRecord)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise BrokenRecord(f"{self.record_path} cannot be read: {error}") from error

    def write(self, record: PodRecord) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        documents.write_bytes(str(self.record_path), msgspec.json.encode(record))

    def runs(self) -> list[ContainerRun]:
        """Every run that was asked for, with its state where it has one."""
        found = []
        for path in sorted((self.path / "containers").glob("*/*/spec.json")):
            state = path.with_name("state.json")
            found.append(
                ContainerRun(
                    name=path.parent.parent.name,
                    attempt=int(path.parent.name),
                    state=recorded(state, ContainerState),
                )
            )
        return found

    def write_state(self, container: str, attempt: int, state: ContainerState) -> None:
        documents.write(str(self.run(container, attempt) / "state.json"), state)

    def lock(self) -> int | None:
        """A descriptor that holds the pod's lock; None while its shim or one of its containers lives."""
        descriptor = os.open(self.lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def shim(self) -> Identity | None:
        """Identity of the shim's process, which may have ended; None before the shim has written it."""
        return recorded(self.path / "shim.json", Identity)
