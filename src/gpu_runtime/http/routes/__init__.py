"""The routes, one module per resource."""

from gpu_runtime.http.route import AnyRoute
from gpu_runtime.http.routes import (
    dead_letters,
    functions,
    inventory,
    invocations,
    jobs,
    stock_units,
    stockpools,
    storages,
    units,
)

ROUTES: tuple[AnyRoute, ...] = (
    *inventory.ROUTES,
    *stockpools.ROUTES,
    *stock_units.ROUTES,
    *jobs.ROUTES,
    *units.ROUTES,
    *storages.ROUTES,
    *functions.ROUTES,
    *invocations.ROUTES,
    *dead_letters.ROUTES,
)
