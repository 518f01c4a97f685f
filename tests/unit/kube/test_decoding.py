from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube import Gone, ServerError, Unreadable
from gpu_runtime.kube.builtin import CONFIG_MAPS, ConfigMap
from gpu_runtime.kube.decoding import WATCH_LINE, Page, WatchEvent, decode_event, decode_object, split_lines
from gpu_runtime.kube.errors import error_from_response

GOOD = {"metadata": {"name": "good", "namespace": "ns", "resourceVersion": "7"}, "data": {"a": "b"}}
BAD = {"metadata": {"name": "bad", "namespace": "ns", "resourceVersion": "8"}, "data": {"a": 1}}


def event(kind: str, obj: object) -> WatchEvent[ConfigMap]:
    return decode_event(CONFIG_MAPS, WATCH_LINE.decode(msgspec.json.encode({"type": kind, "object": obj})))


@mutant("kube/decoding.py", "page.skipped.append(_skipped(resource, raw, error))", "raise")
def test_one_unreadable_object_of_a_list_is_reported_with_name_and_field_and_the_others_are_read() -> None:
    body = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": [BAD, GOOD]})
    page = Page.decode(CONFIG_MAPS, body)
    assert [obj.metadata.name for obj in page.items] == ["good"]
    assert [skipped.key for skipped in page.skipped] == [Key("ns", "bad")]
    assert page.skipped[0].problem == (
        "ConfigMap ns/bad: cannot be read and is left alone: data[...]: Expected `str`, got `int`"
    )


def test_an_unreadable_object_of_a_watch_is_an_event_that_says_so() -> None:
    seen = event("MODIFIED", BAD)
    assert (seen.key, seen.resource_version, seen.object) == (Key("ns", "bad"), "8", None)
    assert seen.skipped is not None


def test_an_object_that_is_no_object_at_all_is_still_only_skipped() -> None:
    page = Page.decode(CONFIG_MAPS, b'{"metadata":{"resourceVersion":"9"},"items":[17, {"metadata": 3}]}')
    assert len(page.skipped) == 2


def test_an_unreadable_answer_to_a_get_names_the_object_and_the_field() -> None:
    with pytest.raises(Unreadable, match=r"ConfigMap ns/bad: .* data\[...\]: Expected `str`"):
        decode_object(CONFIG_MAPS, msgspec.json.encode(BAD))


def test_an_empty_list_may_have_no_items_at_all() -> None:
    page = Page.decode(CONFIG_MAPS, b'{"metadata":{"resourceVersion":"9"},"items":null}')
    assert page.items == []


@mutant("kube/decoding.py", 'case "ERROR":', 'case "NEVER":')
def test_410_inside_a_stream_is_gone() -> None:
    with pytest.raises(Gone):
        event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


def test_a_bookmark_has_a_version_and_no_object() -> None:
    seen = event("BOOKMARK", {"metadata": {"resourceVersion": "55"}})
    assert (seen.resource_version, seen.object) == ("55", None)


def test_an_answer_of_a_proxy_in_between_is_still_a_typed_error() -> None:
    error = error_from_response(502, b"<html>bad gateway</html>", "3", subject="get pods x")
    assert isinstance(error, ServerError)
    assert str(error) == "get pods x: <html>bad gateway</html>"
    assert error.retry_after == 3.0


@given(st.lists(st.binary(min_size=1).map(lambda b: b.replace(b"\n", b"x")), max_size=5), st.data())
async def test_lines_come_out_whole_wherever_the_chunks_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    edges = [0, *cuts, len(stream)]

    async def chunks() -> AsyncIterator[bytes]:
        for start, end in pairwise(edges):
            yield stream[start:end]

    assert [line async for line in split_lines(chunks())] == lines
