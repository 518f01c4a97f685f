"""The same walkthroughs as on the embedded cluster, on a complete real one."""

from __future__ import annotations

from local.walkthroughs.test_walkthroughs import (
    test_a_repeated_request_has_one_effect_and_the_status_tells_the_rest,
    test_a_request_becomes_a_pool_and_the_pool_a_deployment,
    test_one_warm_unit_is_consumed_and_becomes_a_running_instance,
)

__all__ = [
    "test_a_repeated_request_has_one_effect_and_the_status_tells_the_rest",
    "test_a_request_becomes_a_pool_and_the_pool_a_deployment",
    "test_one_warm_unit_is_consumed_and_becomes_a_running_instance",
]
