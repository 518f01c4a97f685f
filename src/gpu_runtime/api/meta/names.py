"""Names that Kubernetes accepts, and names made from other names without two ever meeting."""

from __future__ import annotations

import re
from base64 import b32encode
from hashlib import sha256

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253

# The end is `$` as in every schema; validation here treats it as the very end, as the API server does.
DNS1123_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS1123_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS1035_LABEL = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"

DNS1123_LABEL_HINT = "lower-case letters, digits and '-', beginning and ending with a letter or digit"
DNS1123_SUBDOMAIN_HINT = (
    "lower-case letters, digits, '-' and '.', each part beginning and ending with a letter or digit"
)
DNS1035_LABEL_HINT = "lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit"

_CLAMP_DIGEST = 10  # 50 bits: names that share a long beginning still differ
_KEY_DIGEST = 26  # 130 bits: creating an object of this name is a lock, also against ids that were chosen to meet


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
    """`name` itself if it fits, else its beginning and a digest of all of it: two long names never become one."""
    if len(name) <= limit:
        return name
    kept = name[: limit - _CLAMP_DIGEST - 1].rstrip("-.")
    return f"{kept}-{_digest(name, length=_CLAMP_DIGEST)}"


def joined(*parts: str, limit: int = LABEL_LENGTH) -> str:
    """The parts joined with `-` and clamped: the name of a child, such as `pool-<name>`."""
    return clamp("-".join(parts), limit)


def derived(prefix: str, *key: str, limit: int = LABEL_LENGTH) -> str:
    """The one name that belongs to `key`, such as an operation's type and id: the same on every replica, for ever."""
    return f"{prefix[: limit - _KEY_DIGEST - 1].rstrip('-')}-{_digest(*key, length=_KEY_DIGEST)}"


def slug(text: str, fallback: str = "x") -> str:
    """`text` as a DNS-1035 label (`g1.1` gives `g1-1`). Distinct texts may give one slug: add a digest."""
    letters = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not letters[:1].isalpha():
        letters = f"{fallback}-{letters}".rstrip("-")
    return letters[:LABEL_LENGTH].rstrip("-")


def _whole(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern.removesuffix("$"), text) is not None


def _digest(*parts: str, length: int) -> str:
    """Letters and digits from the parts, each with its length, so that ("ab", "c") is not ("a", "bc")."""
    hashed = sha256("".join(f"{len(part)}:{part}" for part in parts).encode())
    return b32encode(hashed.digest()).decode().lower()[:length]
