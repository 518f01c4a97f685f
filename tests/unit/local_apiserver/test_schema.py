"""Documents of built-in kinds: read, completed, refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.local.apiserver.builtin import named_node
from gpu_runtime.local.apiserver.schema import Node, Reading, WrongType
from gpu_runtime.local.quantities import NotAQuantity, canonical, nanos, spelled


def node(kind: str = "Pod", api_version: str = "v1") -> Node:
    found = named_node(api_version, kind)
    assert found is not None
    return found


def read(document: Any, kind: str = "Pod", api_version: str = "v1") -> tuple[Any, list[str]]:
    reading = Reading()
    return node(kind, api_version).read(document, "", reading), reading.unknown


def test_empty_values_are_dropped_and_pointers_kept() -> None:
    found, _ = read(
        {"spec": {"hostNetwork": False, "hostname": "", "containers": [], "automountServiceAccountToken": False}}
    )
    assert found == {"spec": {"automountServiceAccountToken": False}}


def test_unknown_fields_are_noted_with_their_paths() -> None:
    _, unknown = read({"x": 1, "spec": {"containers": [{"name": "a", "y": 2}]}})
    assert unknown == ["x", "spec.containers[0].y"]


WRONG: dict[str, Any] = {
    "text for a number": {"spec": {"priority": "x"}},
    "a number for text": {"spec": {"hostname": 5}},
    "a fraction for an integer": {"spec": {"priority": 1.5}},
    "an int32 out of range": {"spec": {"priority": 2**31}},
    "an object for a list": {"spec": {"containers": {}}},
    "a list for an object": {"spec": []},
    "a bad quantity": {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}},
    "a bad time": {"status": {"startTime": "yesterday"}},
    "true for a port": {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": True}}}]}},
}


@pytest.mark.parametrize("document", WRONG.values(), ids=WRONG)
def test_a_wrong_type_is_refused(document: Any) -> None:
    with pytest.raises(WrongType):
        read(document)


def test_the_words_of_a_wrong_type_name_the_go_field() -> None:
    with pytest.raises(
        WrongType, match=r"cannot unmarshal string into Go struct field DeploymentSpec\.spec\.replicas of type int32"
    ):
        read({"spec": {"replicas": "3"}}, "Deployment", "apps/v1")


def test_times_and_quantities_take_their_one_spelling() -> None:
    document = {"status": {"startTime": "2020-01-01T02:00:00.5+02:00"}, "spec": {"overhead": {"memory": "1024Mi"}}}
    found, _ = read(document)
    assert found == {"status": {"startTime": "2020-01-01T00:00:00Z"}, "spec": {"overhead": {"memory": "1Gi"}}}


def test_what_go_always_writes_is_completed() -> None:
    found = node("Deployment", "apps/v1").complete({"metadata": {"name": "a"}, "spec": {"template": {}}})
    assert found["status"] == {}
    assert found["spec"] == {
        "selector": None,
        "strategy": {},
        "template": {"metadata": {}, "spec": {"containers": None}},
    }


QUANTITIES = {
    "1024Mi": "1Gi",
    "0.5": "500m",
    "1500m": "1500m",
    "1000m": "1",
    "1E3": "1E3",
    "0.0001": "100u",
    2: "2",
    0.5: "500m",
}


@pytest.mark.parametrize(("given", "want"), QUANTITIES.items())
def test_quantities_are_canonical(given: Any, want: str) -> None:
    assert canonical(given) == want


def test_amounts_of_resources_are_rounded_up_to_milli() -> None:
    assert canonical("0.0001", coarse=True) == "1m"


@pytest.mark.parametrize("given", ["", "lots", "1Gi\n", True, [], None, "1.5.5"])
def test_what_is_no_quantity_is_refused(given: Any) -> None:
    with pytest.raises(NotAQuantity):
        nanos(given)


def test_an_amount_is_spelled_like_another() -> None:
    assert spelled(nanos("3Gi"), "1Gi") == "3Gi"
    assert spelled(nanos("1500m"), "2") == "1500m"


def test_a_text_that_is_none_of_its_choices_is_named_by_its_path() -> None:
    port = {"containerPort": 80, "protocol": "ODD"}
    spec = {"restartPolicy": "Sometimes", "containers": [{"name": "a"}, {"name": "b", "ports": [port]}]}
    template = {"metadata": {"labels": {"protocol": "ODD"}}, "spec": spec}
    causes = list(node("Deployment", "apps/v1").choice_causes({"metadata": {}, "spec": {"template": template}}, ""))
    assert [(cause.reason, cause.field) for cause in causes] == [
        ("FieldValueNotSupported", "spec.template.spec.containers[1].ports[0].protocol"),
        ("FieldValueNotSupported", "spec.template.spec.restartPolicy"),
    ]
