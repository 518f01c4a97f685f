"""The use cases of users' units: create from stock, read, change, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.access import DEFAULT_ACCESS
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit, GPUUnitSpec
from gpu_runtime.api.v1alpha1.rules import access_errors, mount_errors, template_errors
from gpu_runtime.api.v1alpha1.serverless import NOT_SERVERLESS
from gpu_runtime.api.v1alpha1.template import EMPTY_TEMPLATE
from gpu_runtime.api.v1alpha1.worker_pod import serverless_errors
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.children import identity
from gpu_runtime.rest.errors import Clash, InvalidRequest, Missing
from gpu_runtime.rest.requests import CreateGPUUnit, UpdateGPUUnit
from gpu_runtime.rest.views import UnitView
from gpu_runtime.service.cluster import GPU_UNITS, Cluster
from gpu_runtime.service.listing import Filter, ListPage, list_page
from gpu_runtime.service.merge_patch import merge_patch
from gpu_runtime.service.operations.flow import carry_out
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Reader
from gpu_runtime.service.storages.reservations import Reservations, held_by_unit
from gpu_runtime.service.units.handover import HandedOver
from gpu_runtime.service.units.unit_executor import MadeBefore, UnitExecutor
from gpu_runtime.service.views import unit_view

UPDATES = 5
DELETES = 5


class Units:
    """Units outside of the stock namespace."""

    def __init__(
        self,
        cluster: Cluster,
        platform: Platform,
        units: Reader[GPUUnit],
        executor: UnitExecutor,
        storages: Reservations,
    ) -> None:
        self._cluster = cluster
        self._storages = storages
        self._platform = platform
        self._units = units
        self._executor = executor

    async def create(self, request: CreateGPUUnit, sent: Mapping[str, Any], owner: str = "") -> tuple[UnitView, bool]:
        """The unit, and whether this call created it."""
        try:
            done, new = await carry_out(self._executor, request, sent, owner)
        except MadeBefore as before:
            return self._view(before.unit), False
        return self._answer(done), new

    async def get(self, namespace: str | None, name: str) -> UnitView:
        return self._view(await self.find(self.key(namespace, name)))

    def list(self, namespace: str | None, wanted: Filter) -> ListPage[UnitView]:
        return list_page(self._units.all(), wanted, self._view, namespace=self.namespace(namespace))

    async def update(self, namespace: str | None, name: str, change: UpdateGPUUnit, if_match: str = "") -> UnitView:
        """Changes the unit; with `if_match`, only that version of it."""
        key = self.key(namespace, name)
        for _ in range(UPDATES):
            unit = await self.find_live(key)
            meta = unit.metadata
            if if_match and if_match != meta.resourceVersion:
                raise Clash(f"unit {name} has changed: it is at version {meta.resourceVersion}, not {if_match}")
            changed = changed_spec(unit.spec, change)
            patch = merge_patch(unit.spec, changed)
            if not patch:
                return self._view(unit)
            await self._reserve(unit, changed)
            try:
                written = await self._cluster.patch(GPU_UNITS, key, {"metadata": identity(meta), "spec": patch})
            except kube.NotFound as error:
                raise _missing(key) from error
            except kube.Conflict:
                continue  # usually a status was written, which does not affect this change
            self._units.wrote(written)
            return self._view(written)
        raise Clash(f"unit {name} keeps changing; send the request again")

    async def _reserve(self, unit: GPUUnit, changed: GPUUnitSpec) -> None:
        """Reserves the storages that the change adds, after the unit was read and before it says that it mounts them.

        If the change fails, the controller of the storages frees them. It touches the unit first, so a change that
        was decided before is a Conflict.
        """
        before = {mount.name for mount in unit.spec.storageMounts}
        added = [mount for mount in changed.storageMounts if mount.name not in before]
        if not added:
            return
        holder, namespace = held_by_unit(unit), unit.metadata.namespace
        await self._storages.check(namespace, added, holder)
        await self._storages.reserve(namespace, added, holder)

    async def delete(self, namespace: str | None, name: str, if_match: str = "") -> None:
        """Deletes the unit that exists now. Its resources are free when its pod has ended."""
        key = self.key(namespace, name)
        unit = await self.find(key)
        for _ in range(DELETES):
            try:
                await self._cluster.delete(GPU_UNITS, key, uid=unit.metadata.uid, resource_version=if_match or None)
            except kube.NotFound as error:
                raise _missing(key) from error
            except kube.Conflict as error:
                # The cached unit may be an earlier one with this name: ask the server which one exists now.
                unit = await self.find_live(key)
                if if_match and if_match != unit.metadata.resourceVersion:
                    raise Clash(f"unit {name} has changed: it is no longer at version {if_match}") from error
                continue
            self._units.deleted(unit)
            return
        raise Clash(f"unit {name} keeps changing; send the request again")

    def namespace(self, given: str | None) -> str:
        return self._platform.allow(given or self._platform.instance_namespace)

    def key(self, namespace: str | None, name: str) -> Key:
        return Key(self.namespace(namespace), name)

    async def find(self, key: Key) -> GPUUnit:
        """The cached unit, which may be out of date. Missing only when the server confirms it."""
        return self._units.cached(key) or await self.find_live(key)

    async def find_live(self, key: Key) -> GPUUnit:
        unit = await self._units.live(key)
        if unit is None:
            raise _missing(key)
        return unit

    def _view(self, unit: GPUUnit) -> UnitView:
        return unit_view(unit, self._platform.stock_namespace)

    def _answer(self, done: HandedOver) -> UnitView:
        if done.unit is not None:
            self._units.wrote(done.unit)
            return self._view(done.unit)
        made = done.record.status.objects[0]
        return UnitView(
            name=made.name, namespace=made.namespace, operationID=done.record.spec.operationID, deleted=True
        )


def changed_spec(spec: GPUUnitSpec, change: UpdateGPUUnit) -> GPUUnitSpec:
    """The changed spec; InvalidRequest when it breaks a rule."""
    image, template, access, mounts = spec.image, spec.template, spec.access, spec.storageMounts
    serverless = spec.serverless
    if change.image is not UNSET:
        image = change.image
    if change.template is not UNSET:
        template = change.template or EMPTY_TEMPLATE
    if change.access is not UNSET:
        access = change.access or DEFAULT_ACCESS
    if change.storageMounts is not UNSET:
        mounts = change.storageMounts or []
    if change.serverless is not UNSET:
        serverless = change.serverless or NOT_SERVERLESS
    found = [
        *template_errors(template),
        *access_errors(access, template),
        *mount_errors(mounts),
        *serverless_errors(serverless, image, template, mounts),
    ]
    if found:
        raise InvalidRequest.of(found)
    return replace(spec, image=image, template=template, access=access, storageMounts=mounts, serverless=serverless)


def _missing(key: Key) -> Missing:
    return Missing("gpu_unit", f"unit {key.name} does not exist in namespace {key.namespace}")
