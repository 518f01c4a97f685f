"""Checks at start that the kinds, namespaces and priority classes exist that the controllers need."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import structlog

from gpu_runtime.api.v1alpha1.crds import GPU_STORAGE, GPU_UNIT, OPERATION, STOCK_POOL
from gpu_runtime.api.v1alpha1.group import GROUP, VERSION
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import KubeError, NotFound

INSTALL = "kubectl apply -k config/default"


async def report_missing(client: Client, settings: ControllerManagerSettings) -> None:
    """Logs what is missing. The controllers begin without a restart once it is installed."""
    log = structlog.get_logger("prerequisites")
    for line in await missing(client, settings):
        log.warning("missing", problem=f"{line}: {INSTALL}")


async def missing(client: Client, settings: ControllerManagerSettings) -> list[str]:
    """One line for each missing thing. If the server cannot be asked, nothing is reported as missing."""
    try:
        kinds = await _missing_kinds(client)
        return kinds + [what for what, path in _wanted(settings) if not await _exists(client, path)]
    except (KubeError, msgspec.MsgspecError) as error:
        structlog.get_logger("prerequisites").warning("could not check the prerequisites", problem=str(error))
        return []


class _Served(msgspec.Struct):
    name: str


class _Discovery(msgspec.Struct):
    resources: list[_Served] = []


async def _missing_kinds(client: Client) -> list[str]:
    path = f"/apis/{GROUP}/{VERSION}"
    try:
        body = await client.request("GET", path, subject=f"look for {path}")
    except NotFound:
        body = b"{}"
    served = {each.name for each in msgspec.json.decode(body, type=_Discovery).resources}
    wanted = (STOCK_POOL, GPU_UNIT, GPU_STORAGE, OPERATION)
    return [f"kind {kind.kind} ({kind.api_version}) is not served" for kind in wanted if kind.plural not in served]


def _wanted(settings: ControllerManagerSettings) -> Iterator[tuple[str, str]]:
    for name in sorted({settings.installNamespace, *settings.stock.namespaces}):
        yield f"namespace {name} does not exist", f"/api/v1/namespaces/{name}"
    for name in sorted(_priority_classes(settings)):
        yield f"priority class {name} does not exist", f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"


def _priority_classes(settings: ControllerManagerSettings) -> set[str]:
    names = {settings.stock.priorityClassName, settings.units.priorityClassName}
    for flavour in settings.specs.values():
        names |= {flavour.priorityClassName or "", flavour.stockPriorityClassName or ""}
    return names - {""}


async def _exists(client: Client, path: str) -> bool:
    try:
        await client.request("GET", path, subject=f"look for {path}")
    except NotFound:
        return False
    return True
