"""One random sequence of what people do with two storages and three units, by REST and with kubectl."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

from equipment.waiting import eventually
from faults.storage.processes import Replica
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.errors import ApiError
from gpu_runtime.kube.resource import Resource
from gpu_runtime.local.kinds.storage import CLAIMS
from gpu_runtime.service.cluster import GPU_STORAGES, GPU_UNITS
from kube.http.api import Places, unit_request

STEPS = 14
PATIENCE_SECONDS = 4.0  # a person who waits for an object goes on after this time
SIZES = ("1Gi", "2Gi", "3Gi", "5Gi")
FAILS_FIRST = {"fromImage": "filler", "command": ["fail-first"]}
FILLS = {"fromImage": "filler", "command": ["fill"]}

Action = Callable[[], Awaitable[None]]


class Sequence:
    """What is done is chosen by the seed alone; how it ends, by the faults and by the other sequences."""

    def __init__(self, number: int, seed: str, world: Places, replicas: list[Replica]) -> None:
        self.world, self.replicas, self.rng = world, replicas, Random(seed)
        self.storages = [f"s{number}-{index}" for index in range(2)]
        self.units = [f"u{number}-{index}" for index in range(3)]
        self.claims_deleted: set[str] = set()
        self.done: list[str] = []
        self._operations = 0
        self._actions: list[tuple[int, Action]] = [
            (3, self.create_storage),
            (2, self.create_storage_with_kubectl),
            (4, self.create_unit),
            (3, self.create_unit_with_kubectl),
            (6, self.change_mounts),
            (3, self.edit_mounts),
            (2, self.update_unit),
            (3, self.delete_unit),
            (2, self.delete_unit_with_kubectl),
            (2, self.delete_storage),
            (2, self.delete_storage_with_kubectl),
            (2, self.resize),
            (2, self.edit_size),
            (3, self.recover),
            (1, self.delete_claim),
        ]

    async def play(self) -> None:
        await self._begin()
        weights = [weight for weight, _ in self._actions]
        while len(self.done) < STEPS:
            together = 2 if self.rng.random() < 0.3 else 1
            chosen = self.rng.choices([action for _, action in self._actions], weights, k=together)
            await asyncio.gather(*(action() for action in chosen))
            if self.rng.random() < 0.4:
                await self.wait_for_one()

    async def _begin(self) -> None:
        """Two storages and two units that mount them, so that most of what follows finds something to change."""
        one, two = self.storages
        await self._call("POST", "/gpu-storages", {"name": one, "size": "1Gi"}, again=True)
        await self._kubectl("create", GPU_STORAGES, two, self._storage(two))
        mounts = [{"name": one, "mountPath": "/data"}]
        unit = unit_request(self.units[0], self.units[0], storageMounts=mounts)
        await self._call("POST", "/gpu-units", unit, again=True)
        await self.create_unit_with_kubectl()
        self.done.clear()

    async def wait_for_one(self) -> None:
        """Lets the cluster come to rest now and then, or most sequences would never mount anything."""
        resource, name = self.rng.choice(
            [*((GPU_UNITS, each) for each in self.units), *((GPU_STORAGES, each) for each in self.storages)]
        )

        async def ready() -> bool:
            try:
                found: Any = await self.world.client.get(resource, Key(self.world.instance, name))  # type: ignore[arg-type]
            except ApiError:
                return True
            return bool(found.status.phase == "Ready" and found.metadata.deletionTimestamp is None)

        with suppress(AssertionError):
            await eventually(ready, within=PATIENCE_SECONDS)

    # Storages.

    def _storage(self, name: str) -> dict[str, Any]:
        spec: dict[str, Any] = {"size": self.rng.choice(SIZES[:2])}
        other = next(each for each in self.storages if each != name)
        prepare = self.rng.choice([None, None, None, FILLS, FAILS_FIRST, {"fromStorageName": other}])
        return {
            **spec,
            **({"prepare": prepare} if prepare else {}),
            **({"accessor": {"enabled": True}} if self.rng.random() < 0.2 else {}),
        }

    async def create_storage(self) -> None:
        name = self.rng.choice(self.storages)
        await self._call("POST", "/gpu-storages", {"name": name, **self._storage(name)}, again=True)

    async def create_storage_with_kubectl(self) -> None:
        name = self.rng.choice(self.storages)
        await self._kubectl("create", GPU_STORAGES, name, self._storage(name))

    async def resize(self) -> None:
        name, size = self.rng.choice(self.storages), self.rng.choice(SIZES)
        await self._call("PUT", f"/gpu-storages/{name}", {"size": size})

    async def edit_size(self) -> None:
        """Also to a smaller size, which REST refuses."""
        size = self.rng.choice(SIZES)
        await self._kubectl("patch", GPU_STORAGES, self.rng.choice(self.storages), {"size": size})

    async def recover(self) -> None:
        await self._call("POST", f"/gpu-storages/{self.rng.choice(self.storages)}/recover")

    async def delete_storage(self) -> None:
        await self._call("DELETE", f"/gpu-storages/{self.rng.choice(self.storages)}")

    async def delete_storage_with_kubectl(self) -> None:
        how = self.rng.choice(["Background", "Foreground", "Orphan"])
        await self._kubectl("delete", GPU_STORAGES, self.rng.choice(self.storages), propagation=how)

    async def delete_claim(self) -> None:
        name = self.rng.choice(self.storages)
        self.claims_deleted.add(name)
        await self._kubectl("delete", CLAIMS, name)

    # Units.

    def _mounts(self) -> list[dict[str, Any]]:
        names = self.rng.sample(self.storages, self.rng.choice([0, 1, 1, 1, 2]))
        return [
            {"name": name, "mountPath": f"/data/{name}", **({"readOnly": True} if self.rng.random() < 0.2 else {})}
            for name in names
        ]

    async def create_unit(self) -> None:
        name = self.rng.choice(self.units)
        self._operations += 1
        body = unit_request(f"{name}-{self._operations}", name, storageMounts=self._mounts())
        await self._call("POST", "/gpu-units", body, again=True)

    async def create_unit_with_kubectl(self) -> None:
        spec = {"specName": "g1.1", "image": "image:1", "memory": "1Gi", "storageMounts": self._mounts()}
        await self._kubectl("create", GPU_UNITS, self.rng.choice(self.units), spec)

    async def change_mounts(self) -> None:
        await self._call("PUT", f"/gpu-units/{self.rng.choice(self.units)}", {"storageMounts": self._mounts()})

    async def edit_mounts(self) -> None:
        await self._kubectl("patch", GPU_UNITS, self.rng.choice(self.units), {"storageMounts": self._mounts()})

    async def update_unit(self) -> None:
        body = {"image": f"image:{self.rng.randint(1, 3)}"}
        await self._call("PUT", f"/gpu-units/{self.rng.choice(self.units)}", body)

    async def delete_unit(self) -> None:
        await self._call("DELETE", f"/gpu-units/{self.rng.choice(self.units)}")

    async def delete_unit_with_kubectl(self) -> None:
        how = self.rng.choice(["Background", "Foreground"])
        await self._kubectl("delete", GPU_UNITS, self.rng.choice(self.units), propagation=how)

    # How.

    async def _call(self, method: str, path: str, body: Any = None, *, again: bool = False) -> None:
        """On one of the replicas; a client who was not answered may ask the other one the same."""
        first, second = self.rng.sample(self.replicas, 2)
        repeats = again and self.rng.random() < 0.7
        answer = await first.call(method, path, body)
        if (answer is None or answer.status >= 500) and repeats:
            answer = await second.call(method, path, body)
        said = "no answer" if answer is None else f"{answer.status} {answer.code}".rstrip()
        self.done.append(f"{method} {path} {(body or {}).get('storageMounts', '')}: {said}")

    async def _kubectl(
        self, verb: str, resource: Resource[Any], name: str, spec: dict[str, Any] | None = None, **options: Any
    ) -> None:
        client, key, said = self.world.client, Key(self.world.instance, name), "done"
        try:
            match verb:
                case "create":
                    metadata = {"namespace": key.namespace, "name": key.name}
                    await client.create(resource, {"metadata": metadata, "spec": spec})
                case "patch":
                    await client.patch(resource, key, {"spec": spec})
                case "delete":
                    await client.delete(resource, key, **options)
        except ApiError as error:
            said = type(error).__name__
        self.done.append(f"kubectl {verb} {resource.kind} {name} {spec or ''}: {said}")
