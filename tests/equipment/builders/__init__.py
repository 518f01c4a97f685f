"""Test objects in words: `a_unit("u1").gpu(1).ready()`, `a_deployment("u1").available()`.

`.document()` is the object on the wire, `.object()` (our own kinds) and `.into(Struct)` the object as a Struct.
"""

from equipment.builders.base import Builder
from equipment.builders.builtin import a_config_map, a_deployment, a_namespace, a_service
from equipment.builders.product import a_function, a_stock_pool, a_stock_unit, a_storage, a_unit, an_operation
from equipment.builders.widgets import a_widget, widget_definition

__all__ = [
    "Builder",
    "a_config_map",
    "a_deployment",
    "a_function",
    "a_namespace",
    "a_service",
    "a_stock_pool",
    "a_stock_unit",
    "a_storage",
    "a_unit",
    "a_widget",
    "an_operation",
    "widget_definition",
]
