"""Claims and volumes: what may change when, and what the server fills in again."""

from __future__ import annotations

from kube.differential.call import Case, Json, case, json_patch, merge, post, quietly
from kube.differential.objects import CLAIMS, STORAGE_CLASSES, VOLUMES, claim, storage_class, volume

BOUND = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}
VOLUME = f"{VOLUMES}/${{ns}}-a"


def size(amount: str) -> Json:
    return {"spec": {"resources": {"requests": {"storage": amount}}}}


def of_claim(name: str, *changes: Json, bound: bool = False, made: Json = None) -> Case:
    begun = [quietly(post(CLAIMS, claim(changes=made)))]
    if bound:
        begun.append(quietly(merge(f"{CLAIMS}/a/status", BOUND)))
    return case(name, *begun, *(merge(f"{CLAIMS}/a", change) for change in changes))


CASES = [
    of_claim("the mode of a claim stays", *({"spec": {"volumeMode": mode}} for mode in ("Block", "x", ""))),
    of_claim("a claim that waits keeps its size", size("2Gi"), size("1Mi"), size("-1"), {"spec": {"resources": None}}),
    of_claim("a bound claim may grow and not shrink", size("1Mi"), size("2Gi"), size("1Gi"), size("0"), bound=True),
    of_claim("a bound claim keeps a request", {"spec": {"resources": {"requests": None}}}, bound=True),
    of_claim("a bound claim keeps its class", {"spec": {"storageClassName": "other"}}, bound=True),
    of_claim(
        "a claim without a class may be given one, once",
        {"spec": {"storageClassName": "later"}},
        {"spec": {"storageClassName": "other"}},
        made={"spec": {"storageClassName": None}},
    ),
    of_claim("a claim is given its volume once", {"spec": {"volumeName": "v"}}, {"spec": {"volumeName": "w"}}),
    case(
        "a claim without a phase waits",
        quietly(post(CLAIMS, claim())),
        json_patch(f"{CLAIMS}/a/status", {"op": "remove", "path": "/status/phase"}),
        merge(f"{CLAIMS}/a/status", {"status": None}),
    ),
    case(
        "the mode of a volume stays",
        quietly(post(VOLUMES, volume())),
        *(merge(VOLUME, {"spec": {"volumeMode": mode}}) for mode in ("Block", "x", "")),
    ),
    case(
        "a volume without a phase is pending, and knows since when",
        quietly(post(VOLUMES, volume())),
        merge(f"{VOLUME}/status", {"status": {"phase": None}}),
        merge(f"{VOLUME}/status", {"status": {"lastPhaseTransitionTime": None}}),
        merge(f"{VOLUME}/status", {"status": None}),
        merge(f"{VOLUME}/status", {"status": {"phase": "Available"}}),
        merge(f"{VOLUME}/status", {"status": {"phase": "Bound", "lastPhaseTransitionTime": "2020-01-01T00:00:00Z"}}),
        merge(f"{VOLUME}/status", {"status": {"phase": None, "lastPhaseTransitionTime": None}}),
    ),
    case(
        "the policy of a storage class stays",
        quietly(post(STORAGE_CLASSES, storage_class())),
        *(merge(f"{STORAGE_CLASSES}/${{ns}}-a", {"reclaimPolicy": policy}) for policy in ("Retain", "x", "")),
    ),
]
