"""Too many at once are told to wait."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from gpu_runtime.http.load import Load
from gpu_runtime.rest.errors import TooManyRequests


def test_the_request_above_the_bound_is_refused_and_the_next_one_is_not() -> None:
    load = Load(1)
    one, two = make_mocked_request("GET", "/"), make_mocked_request("GET", "/")
    with load.carry(one), pytest.raises(TooManyRequests), load.carry(two):
        pass
    assert load.now == 0
    with load.carry(two):
        assert load.now == 1


def test_a_stream_is_no_longer_counted_once_it_has_begun() -> None:
    load = Load(1)
    request = make_mocked_request("GET", "/")
    with load.carry(request):
        load.leave(request)
        assert load.now == 0
    assert load.now == 0
