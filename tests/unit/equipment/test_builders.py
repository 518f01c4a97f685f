"""Builders make what their words say, and our own kinds can be read into their Structs."""

from __future__ import annotations

from typing import Any

import pytest

from equipment.builders import (
    Builder,
    a_config_map,
    a_deployment,
    a_function,
    a_namespace,
    a_service,
    a_stock_pool,
    a_stock_unit,
    a_storage,
    a_unit,
    a_widget,
    an_operation,
)
from gpu_runtime.api.meta.condition import find_condition
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.operation import Operation
from gpu_runtime.api.v1alpha1.stockpool import StockPool
from gpu_runtime.kube.builtin import ConfigMap

OWN_KINDS: dict[str, tuple[Builder, type[Any]]] = {
    "unit": (a_unit("u1").gpu(1).memory("16Gi").image("python:3.12").port(8080).mounting("data").ready(), GPUUnit),
    "stock": (a_stock_unit("s1").failed("InvalidSpec", "memory"), GPUUnit),
    "pool": (a_stock_pool("p1").replicas(3), StockPool),
    "storage": (a_storage("d1").size("20Gi"), GPUStorage),
    "operation": (an_operation("op1").choosing(a_stock_unit("s1").with_uid("s")).making(a_unit("u1")), Operation),
    "function": (a_function("f1"), GPUFunction),
}


@pytest.mark.parametrize(("builder", "struct"), OWN_KINDS.values(), ids=OWN_KINDS)
def test_our_own_kinds_are_read_into_their_structs(builder: Builder, struct: type[Any]) -> None:
    read = builder.into(struct)
    assert read.metadata.name == builder.name
    assert read.kind == struct.__name__


def test_a_ready_unit_says_so_for_its_generation() -> None:
    unit = a_unit("u1").at_generation(3).gpu(2).ready(node="n1").object()
    condition = find_condition(unit.status.conditions, "Ready")
    assert condition is not None
    assert (condition.status, condition.observedGeneration) == ("True", 3)
    assert (unit.status.phase, unit.status.observedGeneration, unit.status.nodeName) == ("Ready", 3, "n1")
    assert unit.spec.gpu == 2


def test_a_step_leaves_the_builder_before_it_as_it_was() -> None:
    plain = a_config_map("a", "ns").data(x="1")
    changed = plain.data(y="2").labelled({"l": "1"}).annotated({"a": "1"}).kept_by("f").being_deleted()
    changed.document()["data"]["x"] = "spoilt"
    assert plain.into(ConfigMap).data == {"x": "1"}
    read = changed.into(ConfigMap)
    assert (read.data, read.metadata.labels, read.metadata.finalizers) == ({"x": "1", "y": "2"}, {"l": "1"}, ["f"])
    assert read.metadata.deletionTimestamp is not None


def test_a_child_names_its_controller() -> None:
    unit = a_unit("u1").with_uid("the-uid")
    controller = a_config_map("c").controlled_by(unit).into(ConfigMap).metadata.controller
    assert controller is not None
    assert (controller.apiVersion, controller.kind, controller.name) == (
        "runtime.lokiwager.io/v1alpha1",
        "GPUUnit",
        "u1",
    )
    assert controller.uid == "the-uid"


def test_a_condition_replaces_the_one_of_its_type() -> None:
    widget = a_widget("w").ready().condition("Other", "True", "Because").condition("Ready", "False", "Broken", "why")
    conditions = widget.document()["status"]["conditions"]
    assert [(one["type"], one["status"], one["reason"]) for one in conditions] == [
        ("Other", "True", "Because"),
        ("Ready", "False", "Broken"),
    ]


def test_a_deployment_is_available_with_all_its_replicas() -> None:
    status = a_deployment("u1").replicas(2).available().document()["status"]
    assert (status["availableReplicas"], status["conditions"][0]["status"]) == (2, "True")
    assert a_deployment("u1").progressing().document()["status"]["availableReplicas"] == 0


def test_built_in_kinds_are_what_they_are_called() -> None:
    kinds = [builder.document()["kind"] for builder in (a_namespace("n"), a_service("s"), a_deployment("d"))]
    assert kinds == ["Namespace", "Service", "Deployment"]
