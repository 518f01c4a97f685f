"""The storage scene: two units and two storages, a PUT that attaches and detaches, a hand-over, kubectl and deletions.

Requests, sweeper and both reconcilers are the real code; only what Kubernetes does with pods is played. Any process may
stop for ever before any of its calls, or go on late.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import structlog

from equipment.clock import FakeClock
from equipment.memory_api import _matching
from gpu_runtime.api.meta.object import Key, ObjectMeta, wire
from gpu_runtime.api.v1alpha1.attachment import attachment_of
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage, GPUStorageSpec
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.provenance import is_inert
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.registration import add_controllers
from gpu_runtime.kube import Manager
from gpu_runtime.kube.builtin import NAMESPACES, Namespace
from gpu_runtime.kube.client import Query, document_of
from gpu_runtime.kube.errors import KubeError, NotFound, RetryAfter, Terminal
from gpu_runtime.kube.store import Store
from gpu_runtime.rest.errors import ServiceError
from gpu_runtime.rest.request_validation import parse
from gpu_runtime.rest.requests import CreateGPUUnit, UpdateGPUUnit
from gpu_runtime.service.cluster import GPU_STORAGES, GPU_UNITS, OPERATIONS
from gpu_runtime.service.operations.records import Operations
from gpu_runtime.service.operations.sweeper import Sweeper
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Namespaces
from gpu_runtime.service.stock.batch_executor import BY_OPERATION, by_operation
from gpu_runtime.service.stock.picker import BY_SPEC, StockPicker, by_spec
from gpu_runtime.service.stock.seeding import Seeding
from gpu_runtime.service.storages.reservations import Reservations
from gpu_runtime.service.units.handover import HandOver
from unit.service.executors import Executors
from unit.service.exploration.memory import Process, Turn
from unit.service.exploration.scene import Impatient, Violation
from unit.service.exploration.stock_objects import a_stock_unit
from unit.service.exploration.storage_cluster import Kubernetes, StepwiseApi, claims_of

PLATFORM = Platform(allowed_namespaces=("runtime-instance",))
HERE = PLATFORM.instance_namespace
SETTINGS = ControllerManagerSettings()
MOST_PASSES = 40
PASS_SECONDS = 10.0  # older than a record that is too young to be judged


def mounts(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "mountPath": f"/{name}"} for name in names]


class StorageScene:
    """One play. Unit `a` exists; `b` is created with both storages; `c` is made with kubectl and wants the second."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.api = StepwiseApi(self.clock)
        self.trace: list[str] = []
        self.kubernetes = Kubernetes(self.api)
        self.promised: set[str] = set()
        """UIDs of units that a request has told that they have their storages."""
        self.edited: set[str] = set()
        """UIDs of units whose mounts were written with kubectl: nobody promised them anything."""
        self.free_for_ever: set[str] = set()
        """UIDs of storages that were free when they were deleted."""
        self._begin()
        self.requests = {
            "attach a": lambda: self.put(mounts("s1")),
            "detach a": lambda: self.put([]),
            "attach a again": lambda: self.put(mounts("s1")),
            "create b": self.create,
            "kubectl edit a": self.edit,
            "kubectl create c": self.make,
            "delete a": lambda: self.delete(GPU_UNITS, "a"),
            "delete b": lambda: self.delete(GPU_UNITS, "b"),
            "delete c": lambda: self.delete(GPU_UNITS, "c"),
            "delete s1": lambda: self.delete(GPU_STORAGES, "s1"),
        }
        self.loops: dict[str, Callable[[], Awaitable[Any]]] = {
            "unit a": lambda: self.reconcile_one("gpuunit", "a"),
            "unit b": lambda: self.reconcile_one("gpuunit", "b"),
            "unit c": lambda: self.reconcile_one("gpuunit", "c"),
            "stock": lambda: self.reconcile_one("gpuunit", "stock-0", PLATFORM.stock_namespace),
            "storage s1": lambda: self.reconcile_one("gpustorage", "s1"),
            "storage s1 again": lambda: self.reconcile_one("gpustorage", "s1"),
            "storage s2": lambda: self.reconcile_one("gpustorage", "s2"),
            "sweeper": self.sweep,
            "kubernetes": self.kubernetes.run,
            "kubernetes again": self.kubernetes.run,
            "garbage collector": self.kubernetes.collect,
        }

    def _begin(self) -> None:
        """Unit `a` runs and both storages are Ready: the same for every play, so it is played once."""
        if _BEGINNINGS:
            self.api.restore(_BEGINNINGS[0])
            return
        for name in (HERE, PLATFORM.stock_namespace, PLATFORM.system_namespace):
            self.api.add(document_of(NAMESPACES, Namespace(metadata=ObjectMeta(name=name))))
        self.api.add(document_of(GPU_UNITS, a_stock_unit(0)))
        self._put_unit("a")
        for name in ("s1", "s2"):
            storage = GPUStorage(metadata=ObjectMeta(name=name, namespace=HERE), spec=GPUStorageSpec(size="1Gi"))
            self.api.add(document_of(GPU_STORAGES, storage))
        self.rest()
        self.trace.clear()
        _BEGINNINGS.append(self.api.snapshot())

    def step(self, process: Process) -> None:
        self.trace.append(process.step())
        error = process.error
        if error is not None and not isinstance(error, ServiceError | KubeError | Terminal):
            raise self._violation(f"{process.name} failed with {error!r}") from error
        self.check()

    def run(self, name: str | Process, until: str = "") -> Process:
        """Runs the process to its end, or until the call that begins with `until` is next; it can be run on later."""
        process = name if isinstance(name, Process) else Process(name, {**self.requests, **self.loops}[name])
        while not process.done and not (until and process.next.startswith(until)):
            self.step(process)
        assert not until or not process.done, f"{process.name} never calls {until}: {process.error!r}"
        return process

    def rest(self) -> None:
        """Runs everything that is not a request until nothing changes."""
        for _ in range(MOST_PASSES):
            before = self.api._version
            for work in self.at_rest():
                last = Process(work.__name__, work)
                while not last.done:
                    self.step(last)
            if before == self.api._version:
                return
        raise self._violation("the controllers never come to rest")

    def at_rest(self) -> tuple[Callable[[], Awaitable[Any]], ...]:
        """What runs when all requests have ended."""
        return (self.sweep, self.reconcile, self.kubernetes.run, self.kubernetes.collect)

    # What must hold after every step.

    def writers(self) -> dict[str, list[str]]:
        """By claim: the units with a pod that mounts it."""
        writers: dict[str, list[str]] = {}
        for pod in self.api.of_kind("Pod"):
            for claim in claims_of(pod):
                writers.setdefault(claim, []).append(pod["metadata"]["labels"]["runtime.lokiwager.io/unit"])
        return writers

    def check(self) -> None:
        for claim, units in self.writers().items():
            if len(units) > 1:
                raise self._violation(f"{claim} has two writers: {units}")
            if self.api.find("PersistentVolumeClaim", claim) is None:
                raise self._violation(f"the data of {claim} was deleted under the pod of {units[0]}")
            if self._holder(claim) not in (units[0], None):
                raise self._violation(f"a pod of {units[0]} mounts {claim}, which {self._holder(claim)} holds")
            if self._holder(claim) is None and self.api.find("GPUStorage", claim) is not None:
                raise self._violation(f"a pod of {units[0]} mounts {claim}, which is free")
        for storage in self._storages():
            if storage.metadata.deletionTimestamp is None:
                continue
            if attachment_of(storage.metadata) is None:
                self.free_for_ever.add(storage.metadata.uid)
            elif storage.metadata.uid in self.free_for_ever:
                raise self._violation(f"somebody new got {storage.metadata.name}, which is being deleted")
        for unit in self._units():
            for mount in unit.spec.storageMounts:
                holder = self._holder(mount.name)
                if unit.metadata.uid in self.promised - self.edited and holder not in (None, unit.metadata.name):
                    raise self._violation(f"{unit.metadata.name} was promised {mount.name}, which {holder} holds")

    def check_end(self) -> None:
        """What people wait for, when all requests have ended."""
        units = {unit.metadata.name: unit for unit in self._units()}
        running = {pod["metadata"]["labels"].get("runtime.lokiwager.io/unit") for pod in self.api.of_kind("Pod")}
        if any(is_inert(unit) for unit in units.values()):
            raise self._violation("a unit that is neither admitted nor removed")
        for storage in self._storages():
            name, holder = storage.metadata.name, attachment_of(storage.metadata)
            wanted = [unit for unit in units.values() if name in {mount.name for mount in unit.spec.storageMounts}]
            if holder is not None and holder.unit not in {unit.metadata.name for unit in wanted}:
                raise self._violation(f"{name} stays with {holder}, which does not mount it")
            if not wanted and storage.metadata.deletionTimestamp is not None:
                raise self._violation(f"{name} stays in deletion")
        for unit in units.values():
            names = [mount.name for mount in unit.spec.storageMounts]
            can_run = all(self._holder(name) == unit.metadata.name for name in names)
            if can_run and unit.metadata.name not in running:
                raise self._violation(f"{unit.metadata.name} has its storages and does not run")
            free = [name for name in names if self._is_free(name)]
            if names and free == names:
                raise self._violation(f"{unit.metadata.name} waits for {free}, which nobody holds")
        for claim in self.api.of_kind("PersistentVolumeClaim"):
            if self.api.find("GPUStorage", claim["metadata"]["name"]) is None:
                raise self._violation(f"claim {claim['metadata']['name']} outlives its storage")

    def _is_free(self, name: str) -> bool:
        storage = self.api.find("GPUStorage", name)
        return storage is not None and "deletionTimestamp" not in storage["metadata"] and self._holder(name) is None

    def _holder(self, name: str) -> str | None:
        found = [each for each in self._storages() if each.metadata.name == name]
        holder = attachment_of(found[0].metadata) if found else None
        return holder.unit if holder is not None else None

    def _units(self) -> list[GPUUnit]:
        return [each for each in self._now(GPU_UNITS) if each.metadata.namespace == HERE]

    def _storages(self) -> list[GPUStorage]:
        return self._now(GPU_STORAGES)

    def _now(self, resource: Any) -> list[Any]:
        return _matching(self.api.objects, Query(resource))

    def _violation(self, what: str) -> Violation:
        return Violation("\n".join([what, *self.trace]))

    # Requests.

    async def put(self, wanted: list[dict[str, str]]) -> None:
        change = parse(UpdateGPUUnit, {"storageMounts": wanted}, partial=True)
        await self._replica().units.update(HERE, "a", change)
        self._promise("a")

    async def create(self) -> None:
        sent = {"operationID": "b", "name": "b", "specName": "g1", "image": "a", "storageMounts": mounts("s2", "s1")}
        await self._replica().units.create(parse(CreateGPUUnit, sent), sent)
        self._promise("b")

    def _promise(self, name: str) -> None:
        if (unit := self.api.find("GPUUnit", name)) is not None:
            self.promised.add(unit["metadata"]["uid"])

    async def edit(self) -> None:
        """`kubectl edit`: no request reserves the storage before."""
        await Turn("edit a")
        if (unit := self.api.find("GPUUnit", "a")) is not None:
            self.edited.add(unit["metadata"]["uid"])
            self.api.change(unit, spec={**unit["spec"], "storageMounts": mounts("s1")})

    async def make(self) -> None:
        await Turn("make c")
        self._put_unit("c", mounts("s2"))

    async def delete(self, resource: Any, name: str) -> None:
        with suppress(NotFound):
            await self.api.delete(resource, Key(HERE, name))

    # Processes that run all the time, each on caches as old as the beginning of its pass.

    async def reconcile(self) -> None:
        """One pass over all units and storages."""
        for controller, kind in _KINDS.items():
            for each in self._now(kind):
                await self.reconcile_one(controller, each.metadata.name, each.metadata.namespace)

    async def reconcile_one(self, controller: str, name: str, namespace: str = HERE) -> None:
        """One reconcile, with caches that are as old as its beginning."""
        self.clock.advance(PASS_SECONDS)
        client: Any = self.api
        manager = Manager(client)
        controllers = add_controllers(manager, SETTINGS, clock=self.clock)
        self.api.fill(manager)
        with suppress(KubeError, Terminal, RetryAfter):
            await controllers[controller]._reconcile(Key(namespace, name))

    async def sweep(self) -> None:
        operations, records = Operations(self.api, PLATFORM.system_namespace, self.clock), Store[Operation]()
        records.replace([each for each in self._now(OPERATIONS) if "unfinished" in str(each.metadata.labels)], "1")
        sweeper = Sweeper(self.api, operations, PLATFORM, self._replica().registry, records, clock=self.clock)
        await sweeper.sweep()

    def _replica(self) -> Executors:
        operations = Operations(self.api, PLATFORM.system_namespace, self.clock)
        units, namespaces = Store[GPUUnit](), Store[Namespace]()
        units.index(BY_SPEC, by_spec)
        units.index(BY_OPERATION, by_operation)
        units.replace(self._now(GPU_UNITS), "1")
        namespaces.replace(self._now(NAMESPACES), "1")
        picker = StockPicker(self.api, units, PLATFORM.stock_namespace, None, Random(0), self.clock)
        return Executors(
            self.api,
            operations,
            PLATFORM,
            HandOver(self.api, operations, picker, Reservations(self.api, self.clock)),
            Seeding(self.api, operations, picker, PLATFORM.stock_namespace),
            units=units,
            pools=Store[StockPool](),
            namespaces=Namespaces(self.api, namespaces),
            waiter=Impatient(Store[Operation]()),
        )

    def _put_unit(self, name: str, wanted: list[dict[str, str]] | None = None) -> None:
        unit = GPUUnit(metadata=ObjectMeta(name=name, namespace=HERE), spec=GPUUnitSpec(specName="g1", image="a"))
        document = document_of(GPU_UNITS, unit)
        document["spec"] = {**wire(unit.spec), "storageMounts": wanted or []}
        self.api.add(document)


_BEGINNINGS: list[Any] = []
_KINDS: dict[str, Any] = {"gpuunit": GPU_UNITS, "gpustorage": GPU_STORAGES}


def random_storage_schedule(seed: int) -> int:
    """Plays one schedule; its number of steps.

    Processes run one after the other, and some are interrupted at a random call: they go on when others have run in
    between, or never. Most defects need one or two interruptions at the right place, not many.
    """
    structlog.configure(processors=[_drop])
    rng = Random(seed)
    scene = StorageScene()
    requests = rng.sample(sorted(scene.requests), rng.randint(2, len(scene.requests)))
    interrupted: list[Process] = []
    steps = 0
    for _ in range(rng.randint(8, 30)):
        choice = rng.random()
        if requests and choice < 0.25:
            name = requests.pop()
            process = Process(name, scene.requests[name])
        elif interrupted and choice < 0.45:
            process = interrupted.pop(rng.randrange(len(interrupted)))
        else:
            name = rng.choice(sorted(scene.loops))
            process = Process(name, scene.loops[name])
        until = rng.randint(1, 12) if len(interrupted) < 3 and rng.random() < 0.4 else 1_000
        while not process.done and until:
            scene.step(process)
            until, steps = until - 1, steps + 1
        if not process.done:
            interrupted.append(process)
    for process in interrupted:
        while not process.done and rng.random() < 0.9:
            scene.step(process)
        process.stop()
    scene.rest()
    scene.check_end()
    return steps


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent
