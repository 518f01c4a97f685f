"""Bearer tokens from a file. Each line is NAME TOKEN."""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from pathlib import Path

import structlog

from gpu_runtime.rest.errors import Unauthenticated

# The name becomes a label of the objects that its owner creates, so it must be a valid label value.
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME_RULE = "must be up to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"


class TokenFileError(Exception):
    """The file is invalid; the message says why and contains no token."""


class Tokens:
    """Finds the owner of a token. A changed file is used from the next request on; an invalid file is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = structlog.get_logger("tokens")
        self._seen = self._stamp()
        self._owners = read_tokens(path)

    def owner(self, authorization: str | None) -> str:
        """The name of the token's owner; Unauthenticated when the token is missing or unknown."""
        self._refresh()
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("send a bearer token: Authorization: Bearer TOKEN")
        digest = _digest(token.strip())  # a token that is not UTF-8 is unknown
        # Compare with all tokens, each in constant time: the duration must not reveal anything about a token.
        found = [owner for known, owner in self._owners.items() if hmac.compare_digest(known, digest)]
        if not found:
            raise Unauthenticated("the bearer token is unknown")
        return found[0]

    def _refresh(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._owners = read_tokens(self._path)
        except TokenFileError as error:
            self._log.warning("token file not used; the earlier tokens stay valid", problem=str(error))

    def _stamp(self) -> tuple[int, ...]:
        try:
            stat = self._path.stat()
        except OSError:
            return ()
        # Tools that copy a file may set mtime back; ctime cannot be set back.
        return (stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_ino)


def read_tokens(path: Path) -> dict[bytes, str]:
    """Maps the digest of each token to its owner. Empty lines and lines that begin with # are skipped."""
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
