"""The contract of the result store on PostgreSQL."""

from local.results.test_contract import *  # noqa: F403
