"""A certificate authority for one cluster, made anew at each start."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=365)
CLOCK_SKEW = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for servers and clients; every program of the cluster trusts it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = distinguished_name("gpu-runtime-test-ca")
        builder = certificate(self._name, self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.ca_file = folder / "ca.crt"
        self.ca_file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, hosts: Sequence[str]) -> Pair:
        """A certificate for a server that is reached under these names and addresses."""
        return self._issue(name, distinguished_name(name), ExtendedKeyUsageOID.SERVER_AUTH, hosts)

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A certificate that makes its holder this user, member of these groups."""
        file_name = user.replace(":", "-")
        return self._issue(file_name, distinguished_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def _issue(self, file_name: str, subject: x509.Name, usage: x509.ObjectIdentifier, hosts: Sequence[str]) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = certificate(subject, self._name, key).add_extension(x509.ExtendedKeyUsage([usage]), False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([host_name(host) for host in hosts]), False)
        signed = builder.sign(self._key, hashes.SHA256())
        pair = Pair(self._folder / f"{file_name}.crt", self._folder / f"{file_name}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        write_key(pair.key, key)
        return pair


def signing_key(path: Path) -> Path:
    """A fresh key for service account tokens."""
    write_key(path, ec.generate_private_key(ec.SECP256R1()))
    return path


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def distinguished_name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
