"""What becomes of an object, given what became of its owners."""

from __future__ import annotations

import pytest

from gpu_runtime.api.meta.object import ObjectMeta, OwnerReference
from gpu_runtime.local.controllers.garbage.decisions import FOREGROUND, ORPHAN, Fate, Owner, blocks, fate, state_of
from gpu_runtime.local.controllers.namespaces import conditions_of
from unit.local_controllers.objects import NOW


def owned_by(*uids: str, **given: object) -> ObjectMeta:
    owners = [OwnerReference("v1", "ConfigMap", uid, uid, blockOwnerDeletion=True) for uid in uids]
    return ObjectMeta(name="o", ownerReferences=owners, **given)  # type: ignore[arg-type]


S, W, A = Owner.SOLID, Owner.WAITING, Owner.ABSENT


@pytest.mark.parametrize(
    ("owners", "has_dependents", "finalizers", "want"),
    [
        ((S,), False, [], Fate()),
        ((A,), False, [], Fate(delete="Background")),
        ((A,), False, [ORPHAN], Fate(delete="Orphan")),
        ((A,), False, [FOREGROUND], Fate(delete="Foreground")),
        ((W,), False, [], Fate(delete="Background")),
        ((W,), True, [], Fate(delete="Foreground")),
        ((A, W), True, [], Fate(delete="Foreground")),
    ],
)
def test_an_object_goes_when_no_owner_wants_to_stay(
    owners: tuple[Owner, ...], has_dependents: bool, finalizers: list[str], want: Fate
) -> None:
    names = [f"o{number}" for number in range(len(owners))]
    meta = owned_by(*names, finalizers=finalizers)
    assert fate(meta, dict(zip(names, owners, strict=True)), has_dependents=has_dependents) == want


def test_an_object_with_an_owner_left_loses_only_the_others() -> None:
    meta = owned_by("stays", "gone", "going")
    verdict = fate(meta, {"stays": S, "gone": A, "going": W}, has_dependents=False)
    assert verdict.delete is None
    assert verdict.owners is not None
    assert [one.uid for one in verdict.owners] == ["stays"]


def test_an_object_that_goes_already_or_has_no_owner_is_left_alone() -> None:
    assert fate(owned_by("gone", deletionTimestamp=NOW), {"gone": A}, has_dependents=False) == Fate()
    assert fate(ObjectMeta(name="o"), {}, has_dependents=False) == Fate()


def test_an_owner_waits_only_when_it_is_deleted_in_the_foreground() -> None:
    assert state_of(ObjectMeta()) is S
    assert state_of(ObjectMeta(deletionTimestamp=NOW)) is S
    assert state_of(ObjectMeta(deletionTimestamp=NOW, finalizers=[FOREGROUND])) is W


def test_only_dependents_that_say_so_hold_their_owner_up() -> None:
    assert blocks(owned_by("o"), "o")
    assert not blocks(owned_by("other"), "o")
    assert not blocks(ObjectMeta(ownerReferences=[OwnerReference("v1", "Pod", "o", "o")]), "o")


def test_a_namespace_says_what_it_still_waits_for() -> None:
    shown = conditions_of([], {"pods.": 2}, {"example.com/keep": 1}, NOW)
    said = {one.type: (one.status, one.message) for one in shown}
    assert said["NamespaceContentRemaining"] == ("True", "Some resources are remaining: pods. has 2 resource instances")
    assert said["NamespaceFinalizersRemaining"] == (
        "True",
        "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances",
    )
    later = conditions_of(shown, {}, {}, NOW)
    assert {one.status for one in later} == {"False"}
