"""Custom resources of the Widget CRD: validation, pruning, defaults, immutability."""

from __future__ import annotations

from kube.differential.call import (
    Case,
    Json,
    case,
    edit,
    get,
    json_patch,
    merge,
    post,
    quietly,
    table,
    worded,
)
from kube.differential.objects import WIDGETS, widget

W = f"{WIDGETS}/a"
MADE = quietly(post(WIDGETS, widget(), "made"))


def made(title: str, /, **spec: Json) -> Case:
    return case(title, post(WIDGETS, widget(changes={"spec": spec})))


def changed(name: str, before: Json, after: Json) -> Case:
    return case(name, quietly(post(WIDGETS, widget(changes={"spec": before}))), merge(W, {"spec": after}))


CASES = [
    made("defaults are filled in", color=None),
    made("nested defaults are filled in", limits={"memory": "1Gi"}),
    made("defaults of list items are filled in", ports=[{"name": "http", "number": 80}]),
    made("a null with a default takes the default", limits=None),
    case(
        "an explicit null with a default takes the default",
        post(WIDGETS, {**widget(), "spec": {"size": 1, "color": None}}),
    ),
    case(
        "an explicit null is dropped where it is not allowed",
        post(WIDGETS, {**widget(), "spec": {"size": 1, "title": None}}),
    ),
    case(
        "an explicit null is kept where it is allowed", post(WIDGETS, {**widget(), "spec": {"size": 1, "note": None}})
    ),
    made("unknown fields are pruned", nonsense=1, limits={"gpu": 1}),
    made("unknown fields are kept where it says so", free={"any": {"thing": [1, "a"]}}),
    made("a required field is missing", size=None),
    made("a number is too big", size=101),
    made("a number is too small", size=-1),
    made("a number is a string", size="3"),
    made("a number has a fraction", size=1.5),
    made("a whole number written as a fraction", size=3.0),
    made("a number field takes a fraction", ratio=1.5),
    made("a number field takes a whole number", ratio=2),
    made("a boolean is a string", active="true"),
    made("a string is a number", title=5),
    made("a value is not of the enum", color="pink"),
    made("a text is too short", title="a"),
    made("a text is too long", title="abcdefghi"),
    made("a text does not match", title="ABC"),
    made("several faults are all named", title="A", color="pink", size=500),
    made("an int-or-string takes a number", amount=5),
    made("an int-or-string takes a string", amount="5Gi"),
    made("an int-or-string takes nothing else", amount=[1]),
    made("a set has no value twice", tags=["a", "a"]),
    made("a list is too long", tags=["a", "b", "c", "d"]),
    made("a list holds a wrong type", tags=["a", 1]),
    made("a list is an object", tags={"a": 1}),
    made("a list map has no key twice", ports=[{"name": "a"}, {"name": "a"}]),
    made("a list map needs its key", ports=[{"number": 5}]),
    made("a list map holds no numbers", ports=[5]),
    made("a list map holds no texts", ports=["a", "a"]),
    made("a list map holds objects alone", ports=[{"name": "a"}, 5, {"name": "a"}, 6]),
    made("a set of numbers where texts belong", tags=[5, 5]),
    made("an int32 is out of range", ports=[{"name": "a", "number": 3000000000}]),
    made("a map holds a wrong type", labels={"a": 1}),
    made("a map is kept", labels={"a": "1", "b.c/d": "2"}),
    case("a spec of a wrong type is refused", post(WIDGETS, widget(changes={"spec": "text"}))),
    case("a spec may be absent", post(WIDGETS, widget(changes={"spec": None}))),
    case("status is dropped on creation", post(WIDGETS, widget(changes={"status": {"phase": "On"}}))),
    case("a root field that is unknown is pruned", post(WIDGETS, widget(changes={"more": {"a": 1}}))),
    case("a custom resource needs its kind", post(WIDGETS, widget(changes={"kind": None, "apiVersion": None}))),
    case("a custom resource of another kind is refused", post(WIDGETS, widget(changes={"kind": "Gadget"}))),
    case(
        "a custom resource of another version is refused",
        post(WIDGETS, widget(changes={"apiVersion": "differential.example.com/v2"})),
    ),
    case("a custom resource name is checked", post(WIDGETS, widget("Bad_Name"))),
    case(
        "a custom resource gets a generated name",
        post(WIDGETS, widget(changes={"metadata": {"name": None, "generateName": "w-"}})),
    ),
    case("a custom resource is there already", MADE, worded(post(WIDGETS, widget()))),
    case("a custom resource is not there", worded(get(W))),
    case(
        "labels of a custom resource are checked", post(WIDGETS, widget(changes={"metadata": {"labels": {"a": "b c"}}}))
    ),
    case("an update bumps the generation", MADE, edit(W, "made", {"spec": {"size": 9}})),
    case(
        "an update of metadata does not bump the generation",
        MADE,
        edit(W, "made", {"metadata": {"annotations": {"a": "b"}}}),
    ),
    case("an update that changes nothing is none", MADE, edit(W, "made", {"spec": {"size": 3}})),
    case("an update prunes", MADE, edit(W, "made", {"spec": {"nonsense": 3}})),
    case("an update fills in defaults again", MADE, edit(W, "made", {"spec": {"color": None, "limits": None}})),
    case(
        "an update must carry a version",
        MADE,
        edit(W, "made", {"metadata": {"resourceVersion": None}, "spec": {"size": 9}}),
    ),
    case(
        "a stale update of a custom resource is a conflict",
        MADE,
        quietly(merge(W, {"spec": {"size": 9}})),
        edit(W, "made", {"spec": {"size": 10}}),
    ),
    case(
        "a merge patch of a custom resource with an old version is a conflict",
        MADE,
        merge(W, {"metadata": {"resourceVersion": "1"}, "spec": {"size": 9}}),
    ),
    changed("an immutable field may stay", {"zone": "a"}, {"zone": "a", "size": 5}),
    changed("an immutable field may not change", {"zone": "a"}, {"zone": "b"}),
    changed("an immutable field may not be removed", {"zone": "a"}, {"zone": None}),
    changed("an immutable field may not be added", {}, {"zone": "a"}),
    changed("two rules are broken at once", {"serial": "a", "zone": "a"}, {"serial": "b", "zone": "b"}),
    changed("a broken rule beside a broken schema", {"zone": "a"}, {"zone": "b", "size": 500}),
    case(
        "the words of a rule are given",
        quietly(post(WIDGETS, widget(changes={"spec": {"zone": "a"}}))),
        worded(merge(W, {"spec": {"zone": "b"}})),
    ),
    case("the words of a schema are given", worded(post(WIDGETS, widget(changes={"spec": {"size": 101}})))),
    case("the words of an enum are given", worded(post(WIDGETS, widget(changes={"spec": {"color": "pink"}})))),
    case("the words of a missing field are given", worded(post(WIDGETS, widget(changes={"spec": {"size": None}})))),
    case("the words of a wrong type are given", worded(post(WIDGETS, widget(changes={"spec": {"size": "x"}})))),
    changed("a number that becomes a boolean is refused", {"size": 1}, {"size": True}),
    changed("a one that becomes true is a change", {"free": {"a": 1}}, {"free": {"a": True}}),
    changed("a zero that becomes false is a change", {"free": {"a": [0]}}, {"free": {"a": [False]}}),
    changed("a merge patch is validated by the schema", {}, {"size": 101}),
    changed(
        "a merge patch replaces lists of a custom resource", {"ports": [{"name": "a"}]}, {"ports": [{"name": "b"}]}
    ),
    case(
        "a JSON patch is validated by the schema",
        MADE,
        json_patch(W, {"op": "replace", "path": "/spec/size", "value": "x"}),
    ),
    case("an unchanged invalid value is let through or not", MADE, merge(W, {"spec": {"free": {"a": None}}})),
    case("a table shows the columns", MADE, table(WIDGETS), table(W)),
    case(
        "a table shows conditions",
        MADE,
        quietly(merge(f"{W}/status", {"status": {"phase": "On", "conditions": [{"type": "Ready", "status": "True"}]}})),
        table(WIDGETS),
    ),
    case("a time in a status is checked", MADE, merge(f"{W}/status", {"status": {"since": "yesterday"}})),
    case("a time in a status is kept", MADE, merge(f"{W}/status", {"status": {"since": "2020-01-01T00:00:00Z"}})),
    case(
        "a null in a list map is no object, and is told so once",
        post(WIDGETS, widget(changes={"spec": {"ports": [None]}})),
        post(WIDGETS, widget(changes={"spec": {"ports": [None, None]}})),
        post(WIDGETS, widget(changes={"spec": {"ports": [{"name": "a"}, None, {"name": "a"}]}})),
        post(WIDGETS, widget(changes={"spec": {"ports": [None, 5]}})),
        post(WIDGETS, widget(changes={"spec": {"tags": [None, None]}})),
    ),
    case(
        "a widget that says no size has no scale to read, and may be given one",
        quietly(post(WIDGETS, widget(changes={"spec": None}))),
        get(f"{WIDGETS}/a/scale"),
        merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": 3}}),
        get(f"{WIDGETS}/a/scale"),
    ),
]
