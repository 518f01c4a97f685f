from __future__ import annotations

import pytest

from gpu_runtime.edge.names import split_address, url_of


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("localhost:8080", "http://localhost:8080"),
        (":8080", "http://0.0.0.0:8080"),
    ],
)
def test_the_url_of_a_server_is_written_as_browsers_take_it(address: str, url: str) -> None:
    assert url_of(*split_address(address)) == url
