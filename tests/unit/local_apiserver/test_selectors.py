"""Label and field selectors."""

from __future__ import annotations

import pytest

from gpu_runtime.local.apiserver.errors import Status
from gpu_runtime.local.apiserver.records import Record, encode
from gpu_runtime.local.apiserver.selectors import matcher, parse_fields, parse_labels, selector_text, selects

LABELS = {"tier": "front", "size": "5"}

MATCHING = {
    "tier=front": True,
    "tier==front": True,
    "tier!=front": False,
    "absent!=x": True,
    "tier in (front, back)": True,
    "tier notin (front)": False,
    "absent notin (x)": True,
    "tier": True,
    "!tier": False,
    "!absent": True,
    "size>4": True,
    "size<5": False,
    "tier>1": False,
    " tier = front , size ": True,
    "tier=": False,
    "": True,
}


@pytest.mark.parametrize(("text", "want"), MATCHING.items())
def test_a_selector_selects(text: str, want: bool) -> None:
    assert all(requirement.matches(LABELS) for requirement in parse_labels(text)) is want


@pytest.mark.parametrize(
    "text", ["tier=b c", "tier=>x", "tier in (a", "a b=c", "tier=front,", "=x", "size>x", "tier in x"]
)
def test_what_is_no_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(Status) as refused:
        parse_labels(text)
    assert refused.value.code == 400


def test_fields_are_compared_by_value_and_unknown_ones_refused() -> None:
    record = Record("ns/pod", 1, encode({"metadata": {"name": "pod"}, "spec": {"nodeName": "n"}}))
    fields = ("spec.nodeName", "status.phase")
    assert matcher("", "spec.nodeName=n,metadata.namespace=ns,status.phase!=Running", fields)(record)  # type: ignore[misc]
    assert not matcher("", "metadata.name!=pod", fields)(record)  # type: ignore[misc]
    with pytest.raises(Status, match=r"field label not supported: spec\.other"):
        parse_fields("spec.other=x", fields)


def test_a_selector_object_selects_and_is_printed() -> None:
    selector: dict[str, object] = {
        "matchLabels": {"tier": "front"},
        "matchExpressions": [
            {"key": "size", "operator": "In", "values": ["5", "4"]},
            {"key": "gone", "operator": "DoesNotExist"},
        ],
    }
    assert selects(selector, LABELS)
    assert not selects(selector, {"tier": "front"})
    assert not selects(None, LABELS)
    assert selector_text(selector) == "!gone,size in (4,5),tier=front"
