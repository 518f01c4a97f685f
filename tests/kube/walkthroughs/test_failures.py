"""The same failures as on the embedded cluster, on a complete real one."""

from __future__ import annotations

from local.walkthroughs.test_failures import (
    test_what_a_quota_refuses_says_so_until_there_is_room,
    test_what_fits_no_node_says_so_until_there_is_room,
    test_what_is_wrong_with_a_spec_is_said_until_the_spec_is_right,
)

__all__ = [
    "test_what_a_quota_refuses_says_so_until_there_is_room",
    "test_what_fits_no_node_says_so_until_there_is_room",
    "test_what_is_wrong_with_a_spec_is_said_until_the_spec_is_right",
]
