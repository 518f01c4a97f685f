"""The use cases of serverless functions: create, read, change, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.v1alpha1.annotations import PENDING_INVOCATIONS
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.kube import errors as kube
from gpu_runtime.kube.children import identity
from gpu_runtime.rest.errors import Clash, Missing
from gpu_runtime.rest.function_requests import CreateGPUFunction, UpdateGPUFunction
from gpu_runtime.rest.function_views import FunctionView
from gpu_runtime.service.cluster import GPU_FUNCTIONS, Cluster
from gpu_runtime.service.functions.changes import changed_spec
from gpu_runtime.service.functions.function_executor import FunctionExecutor
from gpu_runtime.service.functions.load import LoadOf, unknown_load
from gpu_runtime.service.functions.view import function_view, listed_function
from gpu_runtime.service.listing import Filter, ListPage, list_page
from gpu_runtime.service.merge_patch import merge_patch
from gpu_runtime.service.operations.flow import carry_out
from gpu_runtime.service.operations.object_executor import CreatedObject
from gpu_runtime.service.platform import Platform
from gpu_runtime.service.reading import Reader

ATTEMPTS = 10
Pending = Literal["drain", "cancel"]


class Functions:
    """Decides on live reads, and writes only on the version that was read."""

    def __init__(
        self,
        cluster: Cluster,
        platform: Platform,
        functions: Reader[GPUFunction],
        executor: FunctionExecutor,
        load_of: LoadOf = unknown_load,
    ) -> None:
        self._cluster = cluster
        self._platform = platform
        self._functions = functions
        self._executor = executor
        self._load_of = load_of

    async def create(
        self, request: CreateGPUFunction, sent: Mapping[str, Any], owner: str = ""
    ) -> tuple[FunctionView, bool]:
        """The function, and whether this call created it."""
        done, new = await carry_out(self._executor, request, sent, owner)
        return await self._answer(done), new

    async def get(self, namespace: str | None, name: str) -> FunctionView:
        key = self.key(namespace, name)
        view, load = function_view(await self.find(key)), self._load_of(key)
        return replace(view, queued=load.queued, running=load.running) if load is not None else view

    def list(self, namespace: str | None, wanted: Filter) -> ListPage[FunctionView]:
        return list_page(self._functions.all(), wanted, listed_function, namespace=self.namespace(namespace))

    async def update(
        self, namespace: str | None, name: str, change: UpdateGPUFunction, if_match: str = ""
    ) -> FunctionView:
        """Changes the function; with `if_match`, only that version of it."""
        key = self.key(namespace, name)
        for _ in range(ATTEMPTS):
            function = await self._find_live(key)
            _check_version(function, if_match)
            patch = merge_patch(function.spec, changed_spec(function, change))
            if not patch:
                return function_view(function)
            written = await self._write(function, {"spec": patch})
            if written is not None:
                return function_view(written)
        raise _keeps_changing(name)

    async def delete(
        self, namespace: str | None, name: str, pending: Pending | None = None, if_match: str = ""
    ) -> None:
        """Deletes the function. Its unfinished invocations end first: by themselves, or cancelled.

        What is to happen to them is written before the deletion, so that the activator knows it whenever it looks. A
        function that is being deleted can still be told to cancel instead of waiting.
        """
        key = self.key(namespace, name)
        for _ in range(ATTEMPTS):
            function = await self._find_live(key)
            _check_version(function, if_match)
            await self._executor.settle(function)
            marked = await self._mark(function, pending)
            if marked is None:
                continue
            meta = marked.metadata
            try:
                await self._cluster.delete(GPU_FUNCTIONS, key, uid=meta.uid, resource_version=meta.resourceVersion)
            except kube.NotFound as error:
                raise _missing(key) from error
            except kube.Conflict:
                if_match = ""  # the version that the client named was marked by this call
                continue
            self._functions.deleted(marked)
            return
        raise _keeps_changing(name)

    async def find(self, key: Key) -> GPUFunction:
        """The cached function, which may be out of date. Missing only when the server confirms it."""
        return self._functions.cached(key) or await self._find_live(key)

    def namespace(self, given: str | None) -> str:
        return self._platform.allow(given or self._platform.instance_namespace)

    def key(self, namespace: str | None, name: str) -> Key:
        return Key(self.namespace(namespace), name)

    async def _mark(self, function: GPUFunction, pending: Pending | None) -> GPUFunction | None:
        """Writes `pending` as an annotation. The written function; None when it has changed since it was read."""
        before = function.metadata.annotations.get(PENDING_INVOCATIONS)
        if before == (pending or before or "drain"):
            return function
        return await self._write(function, {"metadata": {"annotations": {PENDING_INVOCATIONS: pending or "drain"}}})

    async def _find_live(self, key: Key) -> GPUFunction:
        function = await self._functions.live(key)
        if function is None:
            raise _missing(key)
        return function

    async def _write(self, function: GPUFunction, patch: Mapping[str, Any]) -> GPUFunction | None:
        """Patches the version that was read; None when the function has changed since."""
        meta = function.metadata
        guarded = {**patch, "metadata": {**identity(meta), **patch.get("metadata", {})}}
        try:
            written = await self._cluster.patch(GPU_FUNCTIONS, meta.key, guarded)
        except kube.NotFound as error:
            raise _missing(meta.key) from error
        except kube.Conflict:
            return None
        self._functions.wrote(written)
        return written

    async def _answer(self, done: CreatedObject[GPUFunction]) -> FunctionView:
        created = done.record.status.objects[0]
        key = Key(created.namespace, created.name)
        function = done.object or await self._functions.get(key)
        if function is not None and function.metadata.uid != created.uid:
            function = await self._functions.live(key)  # the cache may show an earlier function of this name
        if function is not None and function.metadata.uid == created.uid:
            return function_view(function)
        operation_id = done.record.spec.operationID
        return FunctionView(name=key.name, namespace=key.namespace, operationID=operation_id, deleted=True)


def _check_version(function: GPUFunction, if_match: str) -> None:
    version = function.metadata.resourceVersion
    if if_match and if_match != version:
        raise Clash(f"function {function.metadata.name} has changed: it is at version {version}, not {if_match}")


def _keeps_changing(name: str) -> Clash:
    return Clash(f"function {name} keeps changing; send the request again")


def _missing(key: Key) -> Missing:
    return Missing("gpu_function", f"function {key.name} does not exist in namespace {key.namespace}")
