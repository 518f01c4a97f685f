"""TLS on loopback: a CA, a server and an administrator's client certificate, made when they are missing or old."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpu_runtime.local.apiserver.errors import StartError
from gpu_runtime.supervisor.files import write_private

_RENEW_BEFORE = timedelta(days=30)
_YEARS = timedelta(days=3650)
NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADDRESSES = ("127.0.0.1", "::1", "10.96.0.1")


@dataclass(frozen=True)
class Certificates:
    """The paths of one server's PEM files."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path

    @classmethod
    def under(cls, folder: Path) -> Certificates:
        return cls(*(folder / name for name in ("ca.crt", "server.crt", "server.key", "admin.crt", "admin.key")))


def ensure(folder: Path, now: datetime | None = None) -> Certificates:
    """The certificates in `folder`. All are created again when one is missing or expires soon."""
    found = Certificates.under(folder)
    now = now or datetime.now(UTC)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = (found.ca, found.server, found.server_key, found.client, found.client_key)
        until = folder / "valid-until"
        if not all(path.exists() for path in paths) or _ends(until, now):
            until.unlink(missing_ok=True)  # after a crash between two files, the next start makes all of them again
            _make(found, now)
            write_private(until, (now + _YEARS).isoformat().encode())
    except OSError as error:
        raise StartError(f"cannot use certificates in {folder}: {error.strerror or error}") from error
    return found


def _ends(until: Path, now: datetime) -> bool:
    """Whether the certificates expire soon. A file beside them has the time: reading it saves loading a library."""
    try:
        return datetime.fromisoformat(until.read_text()) - _RENEW_BEFORE < now
    except (OSError, ValueError):
        return True


def _make(found: Certificates, now: datetime) -> None:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    def name(common: str, organization: str = "gpu-runtime") -> x509.Name:
        pairs = ((NameOID.COMMON_NAME, common), (NameOID.ORGANIZATION_NAME, organization))
        return x509.Name([x509.NameAttribute(oid, value) for oid, value in pairs])

    ca_key = ec.generate_private_key(ec.SECP256R1())
    issuer = name("gpu-runtime local cluster CA")

    def builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + _YEARS)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        )

    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    ca = builder(issuer, ca_key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    write_private(
        found.ca,
        ca.add_extension(usage, critical=True).sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
    )
    names: list[x509.GeneralName] = [x509.DNSName(one) for one in NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(one)) for one in ADDRESSES]
    leaves = (
        (found.server, found.server_key, name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH),
        (found.client, found.client_key, name("kubernetes-admin", "system:masters"), ExtendedKeyUsageOID.CLIENT_AUTH),
    )
    for path, key_path, subject, purpose in leaves:
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = builder(subject, key).add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        leaf = leaf.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if purpose == ExtendedKeyUsageOID.SERVER_AUTH:
            leaf = leaf.add_extension(x509.SubjectAlternativeName(names), critical=False)
        write_private(path, leaf.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_private(key_path, pem)
