"""Waiting as a kubelet makes crashing containers and failing pulls wait."""

from __future__ import annotations

import pytest

from gpu_runtime.local.node.agent.backoff import Backoff, go_duration
from gpu_runtime.local.node.agent.images import ERROR_SECONDS, Images


def test_the_first_retry_is_at_once_and_the_next_ones_wait_twice_as_long_up_to_five_minutes() -> None:
    backoff = Backoff()
    now, waits = 1000.0, []
    for _ in range(8):
        left = backoff.left("key", now, now)
        waits.append(left)
        now += left
        backoff.tried("key", now - left, now)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_ten_quiet_minutes_are_forgiven() -> None:
    backoff = Backoff()
    backoff.tried("key", 1000, 1000)
    assert backoff.left("key", 1500, 1500) == 10
    assert backoff.left("key", 1601, 1601) == 0


def test_what_is_forgotten_begins_anew() -> None:
    backoff = Backoff()
    backoff.tried("uid/main", 1000, 1000)
    backoff.forget("uid/")
    assert backoff.left("uid/main", 1001, 1001) == 0


@pytest.mark.parametrize(("seconds", "words"), [(10, "10s"), (80, "1m20s"), (300, "5m0s")])
def test_durations_are_spoken_as_kubernetes_does(seconds: float, words: str) -> None:
    assert go_duration(seconds) == words


def test_a_missing_image_is_an_error_for_a_moment_and_then_a_wait_until_the_next_try() -> None:
    images = Images(["missing*"])
    assert images.refusal("uid", "there:1", 1000) is None
    seen = []
    for at in (1000.0, 1000.5, 1000 + ERROR_SECONDS, 1009.0, 1010.0, 1015.0):
        refused = images.refusal("uid", "missing:1", at)
        assert refused
        seen.append((refused.reason, refused.tried))
    assert seen == [
        ("ErrImagePull", True),
        ("ErrImagePull", False),
        ("ImagePullBackOff", False),
        ("ImagePullBackOff", False),
        ("ErrImagePull", True),
        ("ImagePullBackOff", False),
    ]
