"""From the broker into PostgreSQL."""

from local.results.test_consuming import *  # noqa: F403
