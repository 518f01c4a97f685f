"""What people are told about the holder of a storage."""

from __future__ import annotations

import pytest

from gpu_runtime.api.v1alpha1.attachment import UNREADABLE, Attachment, in_use


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
