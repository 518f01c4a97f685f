"""What the keeper of a command sees when the command and its client end at the same time."""

from __future__ import annotations

import os

import pytest

from equipment.mutation import mutant
from gpu_runtime.local.node.shim import init, keeper


@mutant(
    "local/node/shim/keeper.py",
    "if unwanted or closings.poll(0):",
    "if status is None and (unwanted or closings.poll(0)):",
)
def test_a_command_that_ends_as_its_client_goes_is_ended_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, its_end = os.pipe()
    woken, wake = os.pipe()

    def reap(_: int) -> int:
        os.close(its_end)  # between the wake-up and the end of the command
        return 0

    monkeypatch.setattr(init, "reap", reap)
    os.write(wake, b"\0")
    try:
        assert keeper._wait(1, [client], woken, []) is None
    finally:
        for descriptor in (client, woken, wake):
            os.close(descriptor)
