"""Keys of NATS: Ed25519 keys whose text form says what they are for."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Literal, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KeyKind = Literal["operator", "account", "user"]

SEED = 18 << 3  # "S"
PREFIXES: dict[KeyKind, int] = {"operator": 14 << 3, "account": 0, "user": 20 << 3}  # "O", "A", "U"
_KINDS = {prefix: kind for kind, prefix in PREFIXES.items()}
SEED_BYTES = 32


class InvalidKey(ValueError):
    """The text is not a key. The message never contains the text."""


@dataclass(frozen=True, repr=False)
class KeyPair:
    """A private key. Its `repr` shows the public key alone, so that logs and tracebacks do not contain the seed."""

    kind: KeyKind
    secret: bytes

    @classmethod
    def generate(cls, kind: KeyKind) -> Self:
        return cls(kind, Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def from_seed(cls, text: str) -> Self:
        """Reads the form that `seed` writes. InvalidKey for anything else."""
        raw = _decoded(text)
        if len(raw) != 2 + SEED_BYTES or raw[0] & 0xF8 != SEED:
            raise InvalidKey("it is not the seed of a key")
        kind = _KINDS.get((raw[0] & 7) << 5 | raw[1] >> 3)
        if kind is None:
            raise InvalidKey("it is the seed of a key for another purpose")
        return cls(kind, raw[2:])

    @property
    def seed(self) -> str:
        """The private key as text."""
        prefix = PREFIXES[self.kind]
        return _encoded(bytes((SEED | prefix >> 5, (prefix & 31) << 3)) + self.secret)

    @property
    def public(self) -> str:
        raw = self._private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return _encoded(bytes((PREFIXES[self.kind],)) + raw)

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"KeyPair({self.public})"

    @property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)


def public_kind(text: str) -> KeyKind:
    """What the public key is for. InvalidKey when the text is not a public key."""
    raw = _decoded(text)
    kind = _KINDS.get(raw[0]) if len(raw) == 1 + SEED_BYTES else None
    if kind is None:
        raise InvalidKey("it is not a public key")
    return kind


def _encoded(raw: bytes) -> str:
    """Base32 with a checksum and without padding."""
    checked = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        checked = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        raise InvalidKey("it is not the text of a key") from None
    raw, checksum = checked[:-2], checked[-2:]
    if not raw or binascii.crc_hqx(raw, 0).to_bytes(2, "little") != checksum:
        raise InvalidKey("its checksum is wrong")
    return raw
