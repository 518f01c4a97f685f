"""Opens the database that the settings name."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gpu_runtime.config.results import ResultsSettings
from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.results.base import ResultReader, ResultStore
from gpu_runtime.serverless.results.database import Database
from gpu_runtime.serverless.results.store import Reader, Store

SQLITE = "sqlite:///"


def open_store(settings: ResultsSettings) -> ResultStore:
    """For the result store. Connects with the first call; ConfigError for settings that cannot work."""
    return Store(_database(settings, read_only=False))


def open_reader(settings: ResultsSettings) -> ResultReader:
    """For runtime-api. Connects with the first call, reads only, and makes no schema: until the result store has made
    it, calls raise StoreUnavailable. ConfigError for settings that cannot work."""
    return Reader(_database(settings, read_only=True))


def _database(settings: ResultsSettings, *, read_only: bool) -> Database:
    if settings.database is None:
        raise ConfigError("results.database is not set")
    # Imported here: most processes use one of the two, and asyncpg takes a while to load.
    if settings.database.startswith(SQLITE):
        from gpu_runtime.serverless.results.sqlite import SqliteDatabase  # noqa: PLC0415

        return SqliteDatabase(Path(settings.database.removeprefix(SQLITE)), read_only=read_only)
    from gpu_runtime.serverless.results.postgres import PostgresDatabase  # noqa: PLC0415

    address = settings.database
    try:
        parts = urlsplit(address)
        has_password = parts.password is not None or "password=" in unquote(parts.query)
    except ValueError:
        raise ConfigError("results.database: this is not an address of PostgreSQL") from None
    if has_password:
        raise ConfigError("results.database must not have the password: put it into the file of passwordFile")
    password = partial(_password, settings.passwordFile) if settings.passwordFile is not None else None
    if password is not None:
        password()  # a file that cannot be read is a mistake in the settings
    return PostgresDatabase(address, password=password, tls=_tls(settings), read_only=read_only)


def _password(path: str) -> str:
    """Read again for each connection, because the password may change."""
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"results.passwordFile: {path} cannot be read: {reason}") from None


def _tls(settings: ResultsSettings) -> ssl.SSLContext | str:
    """As asyncpg takes it: a mode, or a context with our certificates."""
    if not settings.tlsMode.startswith("verify-"):
        return settings.tlsMode
    try:
        context = ssl.create_default_context(cafile=settings.caFile)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"results.caFile: {settings.caFile}: {error}") from error
    context.check_hostname = settings.tlsMode == "verify-full"
    return context
