from __future__ import annotations

from typing import Any

import msgspec
import pytest

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import ObjectMeta, OwnerReference, wire
from gpu_runtime.kube.children import changes, check_ownership
from gpu_runtime.kube.errors import NameConflict
from gpu_runtime.kube.resource import Resource


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


def a_thing(*, uid: str = "me", labels: dict[str, str] | None = None, owner: str = "owner-uid", **spec: Any) -> Thing:
    owners = [OwnerReference("v1", "Owner", "boss", owner, controller=True)] if owner else []
    meta = ObjectMeta(name="t", namespace="ns", uid=uid, labels=labels or {}, ownerReferences=owners)
    return Thing(metadata=meta, spec=Spec(**{"replicas": 1, **spec}))


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
