"""The administrator's token, and the kubeconfig that contains it."""

from __future__ import annotations

import secrets
from base64 import b64encode
from pathlib import Path

from gpu_runtime.local.apiserver.certificates import Certificates
from gpu_runtime.local.apiserver.records import encode
from gpu_runtime.supervisor.files import write_private


def ensure_token(folder: Path) -> str:
    """The administrator's token, made at first start."""
    path = folder / "token"
    if path.exists() and (known := path.read_text().strip()):
        return known
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode())
    return token


def write_kubeconfig(path: Path, url: str, certificates: Certificates, token: str) -> None:
    """Replaces the kubeconfig in one step; JSON, which is YAML, so that no library is needed to write it."""

    def packed(file: Path) -> str:
        return b64encode(file.read_bytes()).decode()

    user = {
        "token": token,
        "client-certificate-data": packed(certificates.client),
        "client-key-data": packed(certificates.client_key),
    }
    name = "gpu-runtime-local"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": packed(certificates.ca)}}],
        "users": [{"name": f"{name}-admin", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": f"{name}-admin"}}],
        "current-context": name,
    }
    write_private(path, encode(config) + b"\n")
