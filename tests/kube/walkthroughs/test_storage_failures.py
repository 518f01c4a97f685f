"""The same failures of storages as on the embedded cluster, on a complete real one."""

from __future__ import annotations

from local.walkthroughs.test_storage_failures import (
    test_a_storage_of_an_unknown_class_says_so_until_there_is_one,
    test_a_storage_whose_claim_is_deleted_by_hand_says_so_and_gets_no_empty_one,
    test_a_storage_whose_class_cannot_expand_keeps_its_size_and_says_so_until_it_can,
    test_a_storage_whose_volume_is_lost_says_so_and_can_be_deleted,
)

__all__ = [
    "test_a_storage_of_an_unknown_class_says_so_until_there_is_one",
    "test_a_storage_whose_claim_is_deleted_by_hand_says_so_and_gets_no_empty_one",
    "test_a_storage_whose_class_cannot_expand_keeps_its_size_and_says_so_until_it_can",
    "test_a_storage_whose_volume_is_lost_says_so_and_can_be_deleted",
]
