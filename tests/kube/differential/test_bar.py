"""How closely answers are compared, by kind."""

from __future__ import annotations

from kube.differential.answer import Answer, differences
from kube.differential.bar import Bar, bar, of_unserved_services
from kube.differential.call import Call, Json, case, merge, post
from kube.differential.masking import Names
from kube.differential.objects import CRDS, PODS, POLICIES, SERVICES, VOLUMES, WIDGETS

CALL = Call(method="GET", path="/x")
INVALID: Json = {"reason": "Invalid", "message": "one"}


def answer(code: int, body: Json = None) -> Answer:
    return Answer(Names("ns"), code, body=body)


def test_what_the_cluster_runs_is_compared_exactly_and_the_rest_by_code_and_reason() -> None:
    assert bar(f"{PODS}/a/status") is bar(f"{WIDGETS}/a/scale") is bar(SERVICES) is bar("/api/v1") is Bar.EXACT
    assert bar(VOLUMES) is Bar.ALIKE
    assert bar(POLICIES) is bar(f"{CRDS}/a") is bar(SERVICES, unserved=True) is Bar.STORED


def test_a_case_that_makes_another_type_of_service_is_about_services_that_nothing_serves() -> None:
    assert of_unserved_services(case("x", merge(f"{SERVICES}/a", {"spec": {"type": "NodePort"}})))
    assert not of_unserved_services(case("x", post(SERVICES, {"spec": {"type": "ClusterIP"}})))


def test_alike_answers_have_the_same_code_and_reason() -> None:
    other = {"reason": "Invalid", "message": "another", "details": {"causes": []}}
    assert not differences(CALL, answer(422, INVALID), answer(422, other), Bar.ALIKE)
    assert not differences(CALL, answer(200, {"a": 1}), answer(200, {"a": 2}), Bar.ALIKE)
    assert differences(CALL, answer(422, INVALID), answer(422, {"reason": "Other"}), Bar.ALIKE)
    assert differences(CALL, answer(422, INVALID), answer(201, {}), Bar.ALIKE)


def test_what_nothing_acts_on_may_be_stored_although_it_is_invalid_and_never_the_other_way() -> None:
    assert not differences(CALL, answer(422, INVALID), answer(201, {}), Bar.STORED)
    assert differences(CALL, answer(400, {"reason": "BadRequest"}), answer(201, {}), Bar.STORED)
    assert differences(CALL, answer(201, {}), answer(422, INVALID), Bar.STORED)
