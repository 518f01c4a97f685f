"""How closely two answers are compared, by the kind that a call is about."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator

from kube.differential.call import Call, Case, Edited, Json, Step


class Bar(enum.Enum):
    EXACT = "bodies, causes and the words where a case asks for them"
    ALIKE = "the status code, and the reason of a refusal"
    STORED = "as ALIKE, but what the real server finds invalid may be stored: names and types alone are judged here"


ALIKE = frozenset({"serviceaccounts", "persistentvolumes", "resourcequotas", "storageclasses", "priorityclasses"})
STORED = frozenset(
    {
        "customresourcedefinitions",
        "endpointslices",
        "networkpolicies",
        "poddisruptionbudgets",
        "roles",
        "rolebindings",
        "clusterroles",
        "clusterrolebindings",
    }
)
"""Kinds that nothing in the embedded cluster acts on, and definitions, which CI tries on a real server."""

_PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/[^/]+/(?:namespaces/[^/]+/)?(?P<kind>[^/]+)(?:/.*)?$")


def bar(path: str, *, unserved: bool = False) -> Bar:
    """`unserved`: the case is about a Service of a type that nothing serves here."""
    found = _PATH.match(path.replace("/namespaces/${ns}/", "/namespaces/NS/"))
    kind = found["kind"] if found is not None and not (found["group"] or "").endswith("example.com") else ""
    if kind in STORED or (kind == "services" and unserved):
        return Bar.STORED
    return Bar.ALIKE if kind in ALIKE else Bar.EXACT


def of_unserved_services(case: Case) -> bool:
    """Whether a step of the case makes a Service of another type than ClusterIP."""
    return any(kind != "ClusterIP" for step in case.steps for kind in _service_types(step))


def _service_types(step: Step) -> Iterator[str]:
    if isinstance(step, Call) and "/services" in step.path:
        yield from _values(step.body.changes if isinstance(step.body, Edited) else step.body, "type")


def _values(document: Json, name: str) -> Iterator[str]:
    inner: Iterable[Json] = document.values() if isinstance(document, dict) else ()
    if isinstance(document, dict) and isinstance(document.get(name), str):
        yield document[name]
    for one in document if isinstance(document, list) else inner:
        yield from _values(one, name)
