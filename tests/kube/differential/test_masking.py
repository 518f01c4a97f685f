"""Masking hides what two servers may differ in, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

from kube.differential.answer import Answer, differences
from kube.differential.call import Call, Json
from kube.differential.masking import Names, masked

CALL = Call(method="GET", path="/api/v1/namespaces/${ns}/pods/a")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def answer(body: Json, code: int = 200, namespace: str = "ns-l") -> Answer:
    return Answer(Names(namespace), code, "application/json", body)


def test_identities_times_and_versions_are_masked() -> None:
    metadata = {
        "namespace": "ns-l",
        "uid": "3b1e02a1-d434-49cd-88f0-82776fc56246",
        "resourceVersion": "17",
        "creationTimestamp": now(),
        "managedFields": [{}],
    }
    assert masked({"metadata": metadata}, Names("ns-l")) == {
        "metadata": {
            "namespace": "<ns>",
            "uid": "<uid 0>",
            "resourceVersion": "<version 0 after 0>",
            "creationTimestamp": "<time>",
        }
    }


def test_a_time_that_the_case_gave_is_compared() -> None:
    assert masked({"time": "2020-01-01T00:00:00Z"}, Names("ns-l")) == {"time": "2020-01-01T00:00:00Z"}


def test_a_fraction_of_a_second_is_seen() -> None:
    assert masked(now(), Names("ns-l")) != masked(now().replace("Z", ".123456Z"), Names("ns-l"))


def test_a_generated_name_is_masked_when_it_has_five_letters() -> None:
    assert masked({"generateName": "a-", "name": "a-bcdfg"}, Names("x"))["name"] == "a-<generated>"
    assert masked({"generateName": "a-", "name": "a-bcdf"}, Names("x"))["name"] == "a-bcdf"
    assert masked({"generateName": "a-", "name": "given"}, Names("x"))["name"] == "given"


def test_a_headless_service_is_not_masked() -> None:
    assert masked({"clusterIP": "None", "clusterIPs": ["None"]}, Names("x")) == {
        "clusterIP": "None",
        "clusterIPs": ["None"],
    }
    assert masked({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]}, Names("x"))["clusterIP"] == "<clusterIP>"


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


def test_where_the_real_server_fails_it_is_said_what_ours_answers() -> None:
    failure = {"message": "something that nobody has seen yet"}
    assert differences(CALL, answer(failure, 500), answer({"reason": "Invalid"}, 422))
    assert differences(CALL, answer(failure, 500), answer({}, 200))
    assert differences(CALL, answer(failure, 500), answer({}, 500))
    assert differences(CALL, answer({}, 422), answer({}, 500))


def test_equal_identities_stay_equal_and_different_ones_differ() -> None:
    one, other = "3b1e02a1-d434-49cd-88f0-82776fc56246", "7b1e02a1-d434-49cd-88f0-82776fc56247"
    names = Names("ns-l")
    assert masked([one, other, one], names) == ["<uid 0>", "<uid 1>", "<uid 0>"]
    assert masked({"uid": other, "message": f"not {one}"}, names) == {"uid": "<uid 1>", "message": "not <uid 0>"}


def versions(*given: str) -> list[str]:
    names = Names("ns-l")
    return [masked({"resourceVersion": version}, names)["resourceVersion"] for version in given]


def test_a_write_that_changes_nothing_and_one_that_does_are_told_apart() -> None:
    assert versions("5", "5") == versions("7", "7") != versions("5", "6")
    assert versions("5", "9", "7") == versions("50", "61", "60") != versions("5", "7", "9")
    assert versions("", "5") == ["", "<version 0 after 0>"]


def test_a_list_is_as_old_as_what_it_includes() -> None:
    def listed(own: str, *before: str) -> str:
        names = Names("ns-l")
        masked([{"resourceVersion": version} for version in before], names)
        return str(masked({"items": [], "metadata": {"resourceVersion": own}}, names)["metadata"])

    assert listed("9", "5", "8") == listed("17", "5", "8") != listed("7", "5", "8")


def test_the_details_of_an_error_are_compared() -> None:
    def missing(**details: str) -> Answer:
        return answer({"kind": "Status", "reason": "NotFound", "details": details}, 404)

    assert not differences(CALL, missing(name="a", kind="pods"), missing(name="a", kind="pods"))
    assert differences(CALL, missing(name="a", kind="pods"), missing(name="a"))
