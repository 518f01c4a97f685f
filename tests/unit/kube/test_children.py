from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key, ObjectMeta, OwnerReference, wire
from gpu_runtime.kube import ByAnnotation, NameConflict, Resource, Store, owned_by_annotation
from gpu_runtime.kube.builtin import NAMESPACES
from gpu_runtime.kube.children import changes, check_ownership


class Port(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    port: int


class Spec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    replicas: int
    selector: dict[str, str] = {}
    ports: list[Port] = []
    note: str | None = None
    policy: str = "Always"


class Thing(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: Spec


THINGS = Resource("example.org", "v1", "Thing", "things", Thing)


def a_thing(
    *, labels: dict[str, str] | None = None, finalizers: Sequence[str] = (), owner: str = "owner-uid", **spec: Any
) -> Thing:
    owners = [OwnerReference("v1", "Owner", "boss", owner, controller=True)] if owner else []
    meta = ObjectMeta(
        name="t", namespace="ns", uid="me", labels=labels or {}, finalizers=[*finalizers], ownerReferences=owners
    )
    return Thing(metadata=meta, spec=Spec(**{"replicas": 1, **spec}))


NOTES = ByAnnotation(name="example.org/owner-name", uid="example.org/owner-uid")


def annotated(thing: Thing, owner: str = "owner-uid") -> Thing:
    """The thing with annotations that name its owner."""
    notes = NOTES.annotations(ObjectMeta(name="boss", uid=owner))
    return replace(thing, metadata=replace(thing.metadata, annotations=notes))


CASES: dict[str, tuple[Thing, Thing, dict[str, Any]]] = {
    "equal objects need no patch": (a_thing(), a_thing(), {}),
    "a default that the server spelled out is no difference": (
        msgspec.json.decode(
            msgspec.json.encode({**wire(a_thing()), "spec": {"replicas": 1, "policy": "Always"}}), type=Thing
        ),
        a_thing(),
        {},
    ),
    "a changed field is patched alone": (a_thing(replicas=3), a_thing(), {"spec": {"replicas": 1}}),
    "a field that a hand added is removed": (a_thing(note="hand"), a_thing(), {"spec": {"note": None}}),
    "a key that a hand added to a map of ours is removed": (
        a_thing(selector={"a": "1", "b": "2"}),
        a_thing(selector={"a": "1"}),
        {"spec": {"selector": {"b": None}}},
    ),
    "a list is replaced whole": (
        a_thing(ports=[Port("http", 80), Port("hand", 99)]),
        a_thing(ports=[Port("http", 80)]),
        {"spec": {"ports": [{"name": "http", "port": 80}]}},
    ),
    "a list that is no longer wanted is removed": (
        a_thing(ports=[Port("http", 80)]),
        a_thing(),
        {"spec": {"ports": None}},
    ),
    "labels of others are left alone": (
        a_thing(labels={"ours": "1", "theirs": "x"}),
        a_thing(labels={"ours": "1"}),
        {},
    ),
    "a finalizer of ours is put back beside those of others": (
        a_thing(finalizers=["theirs"]),
        a_thing(finalizers=["ours"]),
        {"metadata": {"finalizers": ["theirs", "ours"]}},
    ),
    "finalizers of others are left alone": (a_thing(finalizers=["theirs", "ours"]), a_thing(finalizers=["ours"]), {}),
    "a label of ours is put back": (
        a_thing(labels={"ours": "hand", "theirs": "x"}),
        a_thing(labels={"ours": "1"}),
        {"metadata": {"labels": {"ours": "1"}}},
    ),
}


@pytest.mark.parametrize(("live", "desired", "want"), CASES.values(), ids=CASES)
@mutant("kube/children.py", "dict.fromkeys(before.keys() - after.keys())", "{}")
def test_the_patch_between_live_and_desired(live: Thing, desired: Thing, want: dict[str, Any]) -> None:
    assert changes(live, desired) == want


@pytest.mark.parametrize(("live", "desired"), [(live, desired) for live, desired, _ in CASES.values()], ids=CASES)
def test_a_patched_object_needs_no_second_patch(live: Thing, desired: Thing) -> None:
    merged = msgspec.convert(_merge(wire(live), changes(live, desired)), Thing)
    assert changes(merged, desired) == {}


FOREIGN = {
    "an object without owner": a_thing(owner=""),
    "a child of another owner": a_thing(owner="other-uid"),
}


@pytest.mark.parametrize("live", FOREIGN.values(), ids=FOREIGN)
@mutant("kube/children.py", "if actual is None or actual.uid != wanted.uid:", "if False:")
def test_a_foreign_object_of_our_name_is_a_name_conflict(live: Thing) -> None:
    with pytest.raises(NameConflict, match="Thing ns/t exists and is not ours"):
        check_ownership(THINGS, a_thing(), live)


FOREIGN_BY_ANNOTATION = {
    "without owner": (a_thing(owner=""), "it has no owner"),
    "of another owner": (annotated(a_thing(owner=""), "other"), "it belongs to boss with UID other"),
    "with an owner reference": (a_thing(), "it belongs to Owner boss"),
    "that somebody controls and that copied our annotations": (annotated(a_thing()), "it belongs to Owner boss"),
}


@pytest.mark.parametrize(("live", "holder"), FOREIGN_BY_ANNOTATION.values(), ids=FOREIGN_BY_ANNOTATION)
@mutant("kube/ownership.py", "if not uid or child.controller is not None:", "if not uid:")
def test_an_object_is_a_name_conflict_for_an_owner_by_annotation(live: Thing, holder: str) -> None:
    desired = annotated(a_thing(owner=""))
    with pytest.raises(NameConflict, match=f"Thing ns/t exists and is not ours: {holder}; rename or delete it"):
        check_ownership(THINGS, desired, live, NOTES)
    check_ownership(THINGS, desired, desired, NOTES)


def test_a_child_owned_by_annotation_concerns_the_owner_of_that_name() -> None:
    keys = owned_by_annotation(Store[Thing](), THINGS, NOTES).keys
    assert list(keys(annotated(a_thing(owner="")))) == [Key("ns", "boss")]
    assert list(keys(a_thing())) == []
    assert list(owned_by_annotation(Store[Thing](), NAMESPACES, NOTES).keys(annotated(a_thing(owner="")))) == [
        Key("", "boss")
    ]


def _merge(target: Any, patch: Any) -> Any:
    """RFC 7396, in as many lines."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result
