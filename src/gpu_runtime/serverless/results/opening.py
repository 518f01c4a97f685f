"""Opens the database that the settings name."""

from __future__ import annotations

from gpu_runtime.config.results import ResultsSettings
from gpu_runtime.serverless.results.base import ResultReader, ResultStore


def open_store(settings: ResultsSettings) -> ResultStore:
    """For the result store. Connects with the first call; ConfigError for settings that cannot work."""
    raise NotImplementedError


def open_reader(settings: ResultsSettings) -> ResultReader:
    """For runtime-api. Connects with the first call, reads only, and makes no schema: until the result store has made
    it, calls raise StoreUnavailable. ConfigError for settings that cannot work."""
    raise NotImplementedError
