"""What people are told about the holder of a storage."""

from __future__ import annotations

import pytest

from equipment.mutation import mutant
from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.annotations import ATTACHED_TO
from gpu_runtime.api.v1alpha1.attachment import UNREADABLE, Attachment, attached_to, attachment_of, in_use


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        (Attachment(unit="demo", uid="u"), "is in use by unit demo: one unit can mount it at a time, until its pod"),
        (Attachment(storage="copy", uid="u"), "is in use by storage copy, which is being filled from it: wait"),
        (UNREADABLE, "its annotation runtime.lokiwager.io/attached-to cannot be read: remove it"),
    ],
    ids=["unit", "copy", "unreadable"],
)
def test_who_wants_a_storage_in_use_is_told_who_has_it_and_what_to_wait_for(holder: Attachment, words: str) -> None:
    assert words in in_use("data", holder)


@pytest.mark.parametrize(
    "holder",
    [
        Attachment(unit="demo", uid="u"),
        Attachment(unit="demo", operation="u", operationName="op-1"),
        Attachment(storage="copy.of.data", uid="u"),
    ],
    ids=["unit", "operation", "copy"],
)
def test_a_record_is_read_as_it_was_written(holder: Attachment) -> None:
    assert attachment_of(ObjectMeta(annotations=attached_to(holder))) == holder


@pytest.mark.parametrize(
    "text",
    [
        *("", "junk", "null", "[]", "{}"),
        '{"unit":"one","storage":"two"}',
        '{"unit":"../../secrets/x"}',
        '{"unit":"x=y,z"}',
        '{"storage":"a b"}',
        '{"unit":"demo","operation":"u","operationName":"a,b=c"}',
    ],
)
@mutant("api/v1alpha1/attachment.py", "return holder if _names_one(holder) else UNREADABLE", "return holder")
def test_a_record_that_names_no_possible_holder_cannot_be_read(text: str) -> None:
    assert attachment_of(ObjectMeta(annotations={ATTACHED_TO: text})) is UNREADABLE
