"""On PostgreSQL."""

from local.results.test_housekeeping import *  # noqa: F403
