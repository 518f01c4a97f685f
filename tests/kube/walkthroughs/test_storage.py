"""The same walkthrough of storage as on the embedded cluster, on a complete real one."""

from __future__ import annotations

from local.walkthroughs.test_storage import test_data_stays_when_its_unit_goes_and_goes_with_its_storage

__all__ = ["test_data_stays_when_its_unit_goes_and_goes_with_its_storage"]
