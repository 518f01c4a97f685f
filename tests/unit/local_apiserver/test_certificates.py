"""Certificates: made once, renewed in time, private."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpu_runtime.local.apiserver.certificates import ensure
from gpu_runtime.local.apiserver.kubeconfig import ensure_token

NOW = datetime.now(UTC)


def test_certificates_are_made_once(tmp_path: Path) -> None:
    first = ensure(tmp_path / "pki", NOW).server.read_bytes()
    assert ensure(tmp_path / "pki", NOW).server.read_bytes() == first


def test_certificates_are_renewed_before_they_expire(tmp_path: Path) -> None:
    first = ensure(tmp_path / "pki", NOW).server.read_bytes()
    assert ensure(tmp_path / "pki", NOW + timedelta(days=3640)).server.read_bytes() != first


def test_the_server_certificate_is_signed_by_the_authority(tmp_path: Path) -> None:
    made = ensure(tmp_path / "pki", NOW)
    context = ssl.create_default_context(cafile=str(made.ca))
    context.load_cert_chain(made.server, made.server_key)
    assert stat.S_IMODE(made.server_key.stat().st_mode) == 0o600


def test_the_token_stays_the_same(tmp_path: Path) -> None:
    assert ensure_token(tmp_path) == ensure_token(tmp_path)
