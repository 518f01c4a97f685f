"""On PostgreSQL."""

from local.results.test_schema import *  # noqa: F403
