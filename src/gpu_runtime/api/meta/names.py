"""Checks names by the rules of Kubernetes, and derives names from other names without collisions."""

from __future__ import annotations

import re
from base64 import b32encode
from hashlib import sha256

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253

# The patterns end with `$`, as in every schema. Our validation matches `$` only at the very end of the text, as the
# API server does.
DNS1123_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS1123_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS1035_LABEL = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"

DNS1123_LABEL_HINT = "lower-case letters, digits and '-', beginning and ending with a letter or digit"
DNS1123_SUBDOMAIN_HINT = (
    "lower-case letters, digits, '-' and '.', each part beginning and ending with a letter or digit"
)
DNS1035_LABEL_HINT = "lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit"

_CLAMP_DIGEST = 10  # 50 bits: names that share a long beginning still differ
_KEY_DIGEST = 26  # 130 bits: creating this name is a lock, so an attacker must not find ids that collide


def is_dns1123_label(name: str) -> bool:
    """Whether a Pod, a StockPool or a label value may have this name."""
    return len(name) <= LABEL_LENGTH and _whole(DNS1123_LABEL, name)


def is_dns1123_subdomain(name: str) -> bool:
    """Whether most objects (a Secret, a StorageClass, a Deployment) may have this name."""
    return len(name) <= SUBDOMAIN_LENGTH and _whole(DNS1123_SUBDOMAIN, name)


def is_dns1035_label(name: str) -> bool:
    """Whether a Service may have this name."""
    return len(name) <= LABEL_LENGTH and _whole(DNS1035_LABEL, name)


def clamp(name: str, limit: int = LABEL_LENGTH) -> str:
    """`name` if it fits, else its beginning plus a digest of the whole name, so that long names stay distinct."""
    if len(name) <= limit:
        return name
    kept = name[: limit - _CLAMP_DIGEST - 1].rstrip("-.")
    return f"{kept}-{_digest(name, length=_CLAMP_DIGEST)}"


def joined(*parts: str, limit: int = LABEL_LENGTH) -> str:
    """The parts joined with `-` and clamped, for the name of a child such as `pool-<name>`."""
    return clamp("-".join(parts), limit)


def derived(prefix: str, *key: str, limit: int = LABEL_LENGTH) -> str:
    """The name for `key`, such as an operation's type and id. Every replica and version derives the same name."""
    return f"{prefix[: limit - _KEY_DIGEST - 1].rstrip('-')}-{_digest(*key, length=_KEY_DIGEST)}"


def slug(text: str, fallback: str = "x") -> str:
    """`text` as a DNS-1035 label (`g1.1` gives `g1-1`). Different texts may give the same slug: add a digest."""
    letters = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not letters[:1].isalpha():
        letters = f"{fallback}-{letters}".rstrip("-")
    return letters[:LABEL_LENGTH].rstrip("-")


def _whole(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern.removesuffix("$"), text) is not None


def _digest(*parts: str, length: int) -> str:
    """A digest of the parts, in letters and digits. It covers the lengths, so ("ab", "c") differs from ("a", "bc")."""
    hashed = sha256("".join(f"{len(part)}:{part}" for part in parts).encode())
    return b32encode(hashed.digest()).decode().lower()[:length]
