"""The API group that every kind of the product is served under."""

from __future__ import annotations

GROUP = "runtime.lokiwager.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
