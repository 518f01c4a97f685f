"""Address and credentials of the cluster: from a kubeconfig, or from the Pod that this process runs in."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.kube.credentials import ExecPlugin, ExecToken, FileToken, StaticToken, TokenSource
from gpu_runtime.kube.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class ClusterConfig:
    """All settings of a client; `source` tells a person where they come from."""

    server: str
    ssl: ssl.SSLContext | None
    token: TokenSource
    namespace: str
    source: str
    tls_server_name: str | None = None


class _Entry(msgspec.Struct, frozen=True, rename="kebab"):
    """Kubeconfig keys are kebab-case; the exceptions set their own name."""


class _Cluster(_Entry, frozen=True):
    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _User(_Entry, frozen=True):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    exec: ExecPlugin | None = None
    auth_provider: object = None
    username: str | None = None


class _Context(_Entry, frozen=True):
    cluster: str
    user: str = ""
    namespace: str = "default"


class _NamedCluster(_Entry, frozen=True):
    name: str
    cluster: _Cluster


class _NamedUser(_Entry, frozen=True):
    name: str
    user: _User = _User()


class _NamedContext(_Entry, frozen=True):
    name: str
    context: _Context


class _File(_Entry, frozen=True):
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


_Named = TypeVar("_Named", _NamedCluster, _NamedUser, _NamedContext)


def load_config(
    kubeconfig: Path | None = None, context: str | None = None, *, clock: Clock = SYSTEM_CLOCK
) -> ClusterConfig:
    """The cluster to talk to: the given file, $KUBECONFIG, the Pod's service account, or ~/.kube/config."""
    if kubeconfig is not None:
        return _from_files([kubeconfig], context, clock)
    if listed := os.environ.get("KUBECONFIG"):
        # A list may name files that are not there yet; kubectl skips them too.
        paths = [Path(part) for part in listed.split(os.pathsep) if part]
        return _from_files([path for path in paths if path.exists()] or paths[:1], context, clock)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return _in_cluster(clock)
    home = Path.home() / ".kube" / "config"
    if not home.exists():
        raise ConfigError(
            f"no cluster configured: set KUBECONFIG or pass a kubeconfig ({home} does not exist, and this is not a Pod)"
        )
    return _from_files([home], context, clock)


def _in_cluster(clock: Clock) -> ClusterConfig:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token, authority = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
    if not token.exists():
        raise ConfigError(
            f"this Pod has no service-account token ({token}): set automountServiceAccountToken, or KUBECONFIG"
        )
    namespace = SERVICE_ACCOUNT / "namespace"
    return ClusterConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ssl=_verified(authority.read_text(), str(authority)),
        token=FileToken(token, clock),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        source="the service account of this Pod",
    )


def _from_files(paths: list[Path], context: str | None, clock: Clock) -> ClusterConfig:
    files = [(path, _read(path)) for path in paths]
    where = ", ".join(str(path) for path in paths)
    name = context or next((file.current_context for _, file in files if file.current_context), "")
    if not name:
        raise ConfigError(f"{where}: no current-context: choose one with kubectl config use-context")
    _, chosen = _find(name, "context", [(path, file.contexts) for path, file in files], where)
    path, cluster = _find(chosen.context.cluster, "cluster", [(path, file.clusters) for path, file in files], where)
    user_path, user = path, _User()
    if chosen.context.user:
        user_path, named = _find(chosen.context.user, "user", [(path, file.users) for path, file in files], where)
        user = named.user
    source = f"{where}, context {name}"
    return ClusterConfig(
        server=_server(cluster.cluster, source),
        ssl=_tls(cluster.cluster, path.parent, user, user_path.parent, source),
        token=_token(user, user_path.parent, clock, source),
        namespace=chosen.context.namespace,
        source=source,
        tls_server_name=cluster.cluster.tls_server_name,
    )


def _read(path: Path) -> _File:
    try:
        document = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe loaders
    except OSError as error:
        raise ConfigError(f"cannot read the kubeconfig {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    try:
        return msgspec.convert(document, _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} is not a kubeconfig: {error}") from error


def _find(name: str, what: str, files: list[tuple[Path, list[_Named] | None]], where: str) -> tuple[Path, _Named]:
    known = []
    for path, entries in files:
        for entry in entries or ():
            if entry.name == name:
                return path, entry
            known.append(entry.name)
    raise ConfigError(f"{where}: no {what} named {name!r} (there is: {', '.join(known) or 'none'})")


def _server(cluster: _Cluster, source: str) -> str:
    try:
        url = urlsplit(cluster.server)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(f"{source}: server {cluster.server!r} is not an http(s) address")
    if cluster.proxy_url:
        raise ConfigError(f"{source}: proxy-url is not supported")
    return cluster.server.rstrip("/")


def _token(user: _User, directory: Path, clock: Clock, source: str) -> TokenSource:
    if user.auth_provider is not None:
        raise ConfigError(
            f"{source}: auth-provider is not supported (Kubernetes removed it in 1.26): use an exec plugin"
        )
    if user.username is not None:
        raise ConfigError(f"{source}: username and password are not supported (Kubernetes removed them in 1.19)")
    if user.token:
        return StaticToken(user.token)
    if user.token_file:
        return FileToken(directory / user.token_file, clock)
    if user.exec is not None:
        return ExecToken(user.exec, directory, clock)
    return StaticToken(None)


def _tls(cluster: _Cluster, cluster_dir: Path, user: _User, user_dir: Path, source: str) -> ssl.SSLContext | None:
    if not cluster.server.startswith("https://"):
        return None
    authority = _pem(
        cluster.certificate_authority_data,
        cluster.certificate_authority,
        cluster_dir,
        f"{source}: certificate-authority",
    )
    context = _verified(authority, f"{source}: certificate-authority")
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = _pem(user.client_certificate_data, user.client_certificate, user_dir, f"{source}: client-certificate")
    key = _pem(user.client_key_data, user.client_key, user_dir, f"{source}: client-key")
    if certificate and key:
        _load_client_certificate(context, certificate, key, source)
    elif certificate or key:
        raise ConfigError(f"{source}: client-certificate and client-key must both be set")
    return context


def _pem(data: str | None, path: str | None, directory: Path, what: str) -> str | None:
    try:
        if data:
            return base64.b64decode(data, validate=True).decode()
        if path:
            return (directory / path).read_text()
    except OSError as error:
        raise ConfigError(f"{what}: cannot read {directory / str(path)}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{what}: the data is not base64-encoded PEM") from error
    return None


def _verified(authority: str | None, what: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority)
    except ssl.SSLError as error:
        raise ConfigError(f"{what}: no usable certificate: {error.reason or error}") from error


def _load_client_certificate(context: ssl.SSLContext, certificate: str, key: str, source: str) -> None:
    # OpenSSL reads a key only from a file. This file has mode 0600 and is deleted at once.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate + "\n" + key)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError as error:
            raise ConfigError(f"{source}: client-certificate and client-key do not match: {error.reason}") from error
