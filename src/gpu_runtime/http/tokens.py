"""Bearer tokens from a file: one line a token, its owner's name first."""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from pathlib import Path

import structlog

from gpu_runtime.rest.errors import Unauthenticated

# The name becomes a label of every object that its owner creates, and the API server refuses objects with bad labels.
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME_RULE = "must be up to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"


class TokenFileError(Exception):
    """The file cannot be used; the message says why, without its secrets."""


class Tokens:
    """Who a token belongs to. A changed file counts from the next request on; a broken one changes nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = structlog.get_logger("tokens")
        self._seen = self._stamp()
        self._owners = read_tokens(path)

    def owner(self, authorization: str | None) -> str:
        """The name of the token's owner; Unauthenticated without a token that is known."""
        self._refresh()
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("send a bearer token: Authorization: Bearer TOKEN")
        digest = _digest(token.strip())  # a token may be any bytes; one that is not UTF-8 is simply unknown
        # All are compared, each in constant time: how long it takes tells nothing about any token.
        found = [owner for known, owner in self._owners.items() if hmac.compare_digest(known, digest)]
        if not found:
            raise Unauthenticated("the bearer token is not known")
        return found[0]

    def _refresh(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._owners = read_tokens(self._path)
        except TokenFileError as error:
            self._log.warning("the tokens read before stay in force", problem=str(error))

    def _stamp(self) -> tuple[int, ...]:
        try:
            stat = self._path.stat()
        except OSError:
            return ()
        # Tools that copy a file set its modification time back; nobody can set back the time of that change.
        return (stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_ino)


def read_tokens(path: Path) -> dict[bytes, str]:
    """Digest of each token and whose it is; lines that are empty or begin with # are skipped."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenFileError(f"token file {path}: {error}") from error
    owners: dict[bytes, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise TokenFileError(f"token file {path}, line {number}: write NAME TOKEN")
        if not _LABEL_VALUE.fullmatch(words[0]):
            raise TokenFileError(f"token file {path}, line {number}: the name {_NAME_RULE}")
        owners[_digest(words[1])] = words[0]
    if not owners:
        raise TokenFileError(f"token file {path}: no token in it")
    return owners


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
