"""Masking hides what two servers may differ in, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

from kube.differential.answer import Answer, differences
from kube.differential.call import Call, Json
from kube.differential.masking import masked

CALL = Call(method="GET", path="/api/v1/namespaces/${ns}/pods/a")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def answer(body: Json, code: int = 200, namespace: str = "ns-l") -> Answer:
    return Answer(namespace, code, "application/json", body)


def test_identities_times_and_versions_are_masked() -> None:
    metadata = {
        "namespace": "ns-l",
        "uid": "3b1e02a1-d434-49cd-88f0-82776fc56246",
        "resourceVersion": "17",
        "creationTimestamp": now(),
        "managedFields": [{}],
    }
    assert masked({"metadata": metadata}, "ns-l") == {
        "metadata": {
            "namespace": "<ns>",
            "uid": "<uid>",
            "resourceVersion": "<resourceVersion>",
            "creationTimestamp": "<time>",
        }
    }


def test_a_time_that_the_case_gave_is_compared() -> None:
    assert masked({"time": "2020-01-01T00:00:00Z"}, "ns-l") == {"time": "2020-01-01T00:00:00Z"}


def test_a_fraction_of_a_second_is_seen() -> None:
    assert masked(now(), "ns-l") != masked(now().replace("Z", ".123456Z"), "ns-l")


def test_a_generated_name_is_masked_when_it_has_five_letters() -> None:
    assert masked({"generateName": "a-", "name": "a-bcdfg"}, "x")["name"] == "a-<generated>"
    assert masked({"generateName": "a-", "name": "a-bcdf"}, "x")["name"] == "a-bcdf"
    assert masked({"generateName": "a-", "name": "given"}, "x")["name"] == "given"


def test_a_headless_service_is_not_masked() -> None:
    assert masked({"clusterIP": "None", "clusterIPs": ["None"]}, "x") == {"clusterIP": "None", "clusterIPs": ["None"]}
    assert masked({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]}, "x")["clusterIP"] == "<clusterIP>"


def test_a_missing_field_a_type_and_a_code_are_differences() -> None:
    assert differences(CALL, answer({"a": 1, "b": 2}), answer({"a": 1}))
    assert differences(CALL, answer({"a": 1}), answer({"a": True}))
    assert differences(CALL, answer({"a": [1, 2]}), answer({"a": [2, 1]}))
    assert differences(CALL, answer({}, 200), answer({}, 201))
    assert not differences(CALL, answer({"a": "ns-l"}), answer({"a": "ns-r"}, namespace="ns-r"))


def test_the_causes_of_an_error_are_compared_without_order_and_number() -> None:
    def invalid(*fields: str) -> Answer:
        causes = [{"field": field, "reason": "FieldValueInvalid"} for field in fields]
        return answer({"kind": "Status", "reason": "Invalid", "details": {"causes": causes}}, 422)

    assert not differences(CALL, invalid("a", "b", "b"), invalid("b", "a"))
    assert differences(CALL, invalid("a"), invalid("a", "b"))


def test_where_the_real_server_fails_ours_refuses() -> None:
    assert not differences(CALL, answer({}, 500), answer({}, 422))
    assert differences(CALL, answer({}, 422), answer({}, 500))
    assert differences(CALL, answer({}, 500), answer({}, 200))
    assert differences(CALL, answer({}, 500), answer({}, 500))
