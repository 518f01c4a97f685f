"""Settings of the API that cannot work together are refused at the start."""

from __future__ import annotations

import pytest

from equipment.mutation import mutant
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.config import ApiLimits, ConfigError, OperationSettings, RuntimeApiSettings
from gpu_runtime.http.server import platform


@mutant("http/server.py", "if wait >= limit:", "if wait > limit:")
def test_a_replay_that_would_wait_until_its_own_deadline_is_refused_at_the_start() -> None:
    settings = RuntimeApiSettings(limits=ApiLimits(requestSeconds=5), operations=OperationSettings(replayWaitSeconds=5))
    with pytest.raises(ConfigError, match="replayWaitSeconds: 5 must be less than"):
        platform(settings)


def test_the_largest_storage_is_a_setting() -> None:
    assert platform(RuntimeApiSettings()).largest_storage == Quantity.parse("16Ti")
    assert platform(RuntimeApiSettings(limits=ApiLimits(storageSize="1Ti"))).largest_storage == Quantity.parse("1Ti")
