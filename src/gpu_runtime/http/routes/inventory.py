"""Inventory and health over HTTP."""

from __future__ import annotations

from gpu_runtime.http.route import Answer, AnyRoute, Call, Nothing, Reply, Route
from gpu_runtime.rest.views import HealthView, InventoryView


async def inventory(call: Call[Nothing, Nothing, Nothing]) -> Reply:
    return Reply(call.services.inventory.view())


async def health(call: Call[Nothing, Nothing, Nothing]) -> Reply:
    return Reply(call.services.inventory.health())


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="GET",
        path="/health",
        summary="Health of this process",
        tag="health",
        handler=health,
        answers=(Answer(200, "The process is alive; the data shows the state of the cluster.", HealthView),),
        open=True,
    ),
    Route(
        method="GET",
        path="/operator/inventory",
        summary="Nodes, GPUs, stock and units, and the stock that can be handed over now",
        tag="stock",
        handler=inventory,
        answers=(Answer(200, "Nodes, GPUs, stock and units.", InventoryView),),
    ),
)
