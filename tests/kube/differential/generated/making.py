"""Makes one call of a kind, a verb and a flavour; pure but for the random numbers that it is given."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from kube.differential.call import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Call,
    Edited,
    Json,
    delete,
    get,
    patch,
    post,
    put,
)
from kube.differential.filling import merged
from kube.differential.generated.kinds import Kind

FLAVOURS: dict[str, tuple[str, ...]] = {
    "create": ("valid", "missing", "wrong type", "unknown", "stale", "another type"),
    "get": ("valid", "missing"),
    "list": ("valid", "wrong type"),
    "watch": ("valid", "wrong type"),
    "update": ("valid", "missing", "wrong type", "unknown", "stale", "immutable", "another type"),
    "json patch": ("valid", "missing", "wrong type", "unknown", "stale", "another type"),
    "merge patch": ("valid", "missing", "wrong type", "unknown", "stale", "immutable", "another type"),
    "strategic patch": ("valid", "missing", "wrong type", "unknown", "stale", "immutable", "another type"),
    "delete": ("valid", "missing", "stale", "unknown"),
    "deletecollection": ("valid", "wrong type"),
    "get status": ("valid", "missing"),
    "patch status": ("valid", "missing", "wrong type", "unknown", "stale", "another type"),
    "update status": ("valid", "stale", "another type"),
    "get scale": ("valid", "missing"),
    "patch scale": ("valid", "wrong type", "another type"),
    "update scale": ("valid", "stale", "another type"),
    "binding": ("valid", "missing"),
    "eviction": ("valid", "missing"),
    "log": ("missing",),
    "finalize": ("valid",),
}
WEIGHTS = {"valid": 3}
WRONG: tuple[Json, ...] = ("text", 5, True, [], {}, [5], 1.5, None)
STALE = {"metadata": {"resourceVersion": "1"}}
TYPES: tuple[Json, ...] = (
    {"kind": "Nonsense"},
    {"kind": "ConfigMap", "apiVersion": "v1"},
    {"apiVersion": "example.com/v1"},
    {"apiVersion": "a/b/c"},
    {"kind": ""},
    {"apiVersion": ""},
)
"""What an object may say to be that it is not."""
BESIDES = ("valid", "wrong type", "unknown", "stale")
LANE = "lane"


@dataclass(frozen=True)
class Wish:
    """A kind, a verb and what is wrong with the call, if anything."""

    kind: Kind
    verb: str
    flavour: str

    @property
    def needs_object(self) -> bool:
        if self.verb == "create":
            return self.flavour == "stale"
        return self.flavour != "missing" and self.verb not in ("list", "deletecollection")

    @property
    def can_be_used(self) -> bool:
        """A definition of another version, or of one that is not served, never answers where we would look."""
        return not self.kind.serves or self.flavour == "valid"

    @property
    def changes_managers(self) -> bool:
        """Whether a field may get another manager although it stays what it is."""
        return self.flavour == "another type" or self.verb.endswith("scale")

    @property
    def custom(self) -> bool:
        return "." in self.kind.path.split("/")[2] and not self.kind.path.split("/")[2].endswith(".k8s.io")


def wishes(kind: Kind) -> list[Wish]:
    """Every verb of a kind with every flavour that it knows, the valid ones more often."""
    found = []
    for verb, flavours in FLAVOURS.items():
        for flavour in flavours:
            wish = Wish(kind, verb, flavour)
            if possible(wish):
                found += [wish] * WEIGHTS.get(flavour, 1)
    return found


def possible(wish: Wish) -> bool:
    kind, verb = wish.kind, wish.verb
    if verb.endswith("status"):
        return bool(kind.status)
    if verb.endswith("scale"):
        return kind.scaled
    if verb in ("binding", "eviction", "log"):
        return kind.resource == "pods"
    if verb == "finalize":
        return kind.resource == "namespaces"
    if verb == "deletecollection":
        return kind.resource != "namespaces"
    if wish.flavour == "immutable":
        return bool(kind.immutable)
    return verb != "strategic patch" or not wish.custom or wish.flavour == "valid"


def make(wish: Wish, name: str, kept: str, random: Random) -> Call:
    """The call; `name` is the object's (a fresh one for a create), `kept` where its last answer is known."""
    path = f"{wish.kind.path}/{name}"
    verb = wish.verb
    if verb == "create":
        tried = {} if wish.can_be_used else {"dryRun": "All"}
        return post(wish.kind.path, body_of_create(wish, name, random), **strictness(wish, random), **tried)
    if verb == "get":
        return get(path)
    if verb in ("list", "watch"):
        return collection(wish, name)
    if verb == "update":
        return put(
            path,
            Edited(kept, changes(wish, random)) if wish.needs_object else fresh(wish.kind, name),
            **strictness(wish, random),
        )
    if verb.endswith(" patch"):
        return patched(wish, path, random)
    if verb == "delete":
        return delete(path, deletion(wish, kept))
    if verb == "deletecollection":
        return delete(wish.kind.path, labelSelector=f"{LANE}=${{ns}}" if wish.flavour == "valid" else "a=>b")
    return subresource(wish, path, kept, random)


def fresh(kind: Kind, name: str) -> Json:
    return kind.build(name, {"metadata": {"labels": {LANE: "${ns}"}}})


def body_of_create(wish: Wish, name: str, random: Random) -> Json:
    body = fresh(wish.kind, name)
    if wish.flavour == "valid":
        return merged(body, random.choice(EXTRAS))
    if wish.flavour == "missing":
        known = [*wish.kind.required, "metadata.name"]
        return altered(body, random.choice(known if random.random() < 0.5 else list(places(body))))
    if wish.flavour == "wrong type" and random.random() < 0.7:
        place = random.choice(list(places(body)))
        # A name in words would be one that other lanes make, too.
        return altered(body, place, random.choice(WRONG[place == "metadata.name" :]))
    return merged(body, changes(wish, random)) if wish.flavour != "stale" else body


EXTRAS: tuple[Json, ...] = (
    {},
    {"metadata": {"annotations": {"example.com/note": "any text"}}},
    {"metadata": {"labels": {"example.com/tier": "a", "b": ""}}},
    {
        "metadata": {
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}]
        }
    },
)


def changes(wish: Wish, random: Random) -> Json:
    """What an update or a patch of this flavour changes."""
    kind = wish.kind
    if wish.flavour == "another type":
        return merged(changes(replace(wish, flavour=random.choice(BESIDES)), random), random.choice(TYPES))
    if wish.flavour == "immutable":
        return random.choice(kind.immutable)
    if wish.flavour == "wrong type":
        return nested(random.choice([*kind.numbers, "metadata.labels"]), random.choice(["text", 5, True]))
    if wish.flavour == "unknown":
        return random.choice([{"nonsense": 1}, {"metadata": {"nonsense": {"a": 1}}}])
    change = merged(
        random.choice([*kind.mutable, {"metadata": {"annotations": {"n": str(random.randrange(1000))}}}]), {}
    )
    return merged(change, STALE) if wish.flavour == "stale" else change


def strictness(wish: Wish, random: Random) -> dict[str, str]:
    return (
        {"fieldValidation": random.choice(["Strict", "Warn", "Ignore"])}
        if wish.flavour in ("unknown", "another type")
        else {}
    )


def collection(wish: Wish, name: str) -> Call:
    if wish.verb == "watch":
        query = {"watch": "true", "timeoutSeconds": "5", "fieldSelector": f"metadata.name={name}"}
        wrong = {"watch": "true", "resourceVersion": "text"}
        return Call(method="GET", path=wish.kind.path, query=query if wish.flavour == "valid" else wrong, events=1)
    return get(
        wish.kind.path, **({"labelSelector": f"{LANE}=${{ns}}"} if wish.flavour == "valid" else {"limit": "few"})
    )


def patched(wish: Wish, path: str, random: Random) -> Call:
    content = {"json patch": JSON_PATCH, "merge patch": MERGE_PATCH, "strategic patch": STRATEGIC_PATCH}[wish.verb]
    change = changes(wish, random)
    if content != JSON_PATCH:
        return patch(path, change, content, **strictness(wish, random))
    operations = [
        {"op": "add", "path": f"/{key}", "value": value} for key, value in change.items() if key != "metadata"
    ]
    for key, value in change.get("metadata", {}).items():
        operations.append({"op": "add", "path": f"/metadata/{key}", "value": value})
    if wish.flavour in ("valid", "stale"):
        operations = [{"op": "add", "path": "/metadata/annotations", "value": {"json": str(random.randrange(1000))}}]
    if wish.flavour == "stale":
        operations.insert(0, {"op": "test", "path": "/metadata/resourceVersion", "value": "1"})
    return patch(path, operations, content, **strictness(wish, random))


def deletion(wish: Wish, kept: str) -> Json:
    if wish.flavour == "stale":
        return {"preconditions": {"resourceVersion": "1"}}
    if wish.flavour == "unknown":
        return {"preconditions": {"uid": "another"}}
    return {"preconditions": {"uid": f"${{{kept}.metadata.uid}}"}} if wish.flavour == "valid" else None


def subresource(wish: Wish, path: str, kept: str, random: Random) -> Call:
    verb, _, name = wish.verb.partition(" ")
    if verb in ("binding", "log"):
        target = {"metadata": {"name": path.rsplit("/", 1)[1]}, "target": {"kind": "Node", "name": "there"}}
        return post(f"{path}/binding", target) if verb == "binding" else get(f"{path}/log")
    if verb == "eviction":
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": path.rsplit("/", 1)[1]}}
        return post(f"{path}/eviction", eviction)
    if verb == "finalize":
        return put(f"{path}/finalize", Edited(kept, {"spec": {"finalizers": ["kubernetes"]}}))
    if verb == "get":
        return get(f"{path}/{name}")
    change = {"spec": {"replicas": random.randrange(20)}} if name == "scale" else random.choice(wish.kind.status)
    if wish.flavour == "wrong type":
        change = {"spec": {"replicas": "many"}} if name == "scale" else {"status": "text"}
    if wish.flavour == "unknown":
        change = merged(change, {"nonsense": True})
    if wish.flavour == "stale" or (wish.flavour == "another type" and random.random() < 0.5):
        change = merged(change, STALE)
    if wish.flavour == "another type":
        change = merged(change, random.choice(TYPES))
    if verb == "patch":
        return patch(f"{path}/{name}", change, MERGE_PATCH)
    if name == "scale":
        metadata = {"name": path.rsplit("/", 1)[1], "namespace": "${ns}"}
        return put(
            f"{path}/scale", merged({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata}, change)
        )
    return put(f"{path}/{name}", Edited(kept, change))


def nested(path: str, value: Json) -> Json:
    for part in reversed(path.split(".")):
        value = {part: value}
    return value


def places(body: Json, path: str = "") -> Iterator[str]:
    """Every field of an object, however deep; what names its kind and lane is left alone."""
    items = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for key, value in items:
        inner = f"{path}.{key}".lstrip(".")
        if inner not in ("apiVersion", "kind", "metadata") and not inner.startswith("metadata.labels"):
            yield inner
        yield from places(value, inner)


REMOVED: Json = object()


def altered(body: Json, path: str, value: Json = REMOVED) -> Json:
    """A copy of `body` in which one field is another value, or is not there."""
    result = copy.deepcopy(body)
    *parents, last = (int(part) if part.isdecimal() else part for part in path.split("."))
    inner = result
    for part in parents:
        inner = inner[part]
    if value is REMOVED:
        inner.pop(last)
    else:
        inner[last] = value
    return result
