"""A flag in a query is a boolean, as its schema says: an empty one is neither true nor false."""

from __future__ import annotations

import pytest

from gpu_runtime.http.parameters import GetOrWatch
from gpu_runtime.http.route import _parameters
from gpu_runtime.rest.errors import InvalidRequest


@pytest.mark.parametrize(("text", "means"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_a_flag_is_read(text: str, means: bool) -> None:
    assert _parameters(GetOrWatch, {"watch": text}, "query").watch is means


@pytest.mark.parametrize("text", ["", "yes", "TRUE", "2"])
def test_what_is_no_boolean_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        _parameters(GetOrWatch, {"watch": text}, "query")
