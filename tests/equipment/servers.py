"""API servers for tests: a real control plane of its own, one that already runs, or the embedded one."""

from __future__ import annotations

import base64
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Literal

import pytest
import yaml

from equipment.upkeep import upkeep
from realkube import binaries, control_plane
from realkube.api import Access
from realkube.control_plane import ControlPlane
from realkube.process import Process, wait_until
from realkube.progress import Say

RUNNING_SERVER = "GPU_RUNTIME_TEST_KUBECONFIG"
LONGEST_HINT = 40  # of the 63 characters of a namespace's name

Kind = Literal["real", "embedded"]


@dataclass(frozen=True)
class ApiServer(Access):
    """An API server with admin credentials."""

    kubeconfig: Path
    version: str
    kind: Kind = "real"
    plane: ControlPlane | None = None  # absent where the server is not ours to start and stop
    process_id: int | None = None  # of the process that answers; absent where it is not ours

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The server's process stands still inside the block: connections stay open, nothing is answered."""
        assert self.process_id is not None, "only a server that the tests started can be paused"
        os.kill(self.process_id, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process_id, signal.SIGCONT)

    def kubectl(
        self,
        *args: str,
        input: str | None = None,  # noqa: A002 - named as in subprocess.run
        check: bool = True,
        binary: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl against this server; where it must succeed and does not, the error shows what it said."""
        program = binary or binaries.ensure("kubectl")["kubectl"]
        command = [str(program), "--kubeconfig", str(self.kubeconfig), *args]
        done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(args)}: status {done.returncode}\n{done.stderr}{done.stdout}")
        return done

    def with_url(self, url: str, ca_file: Path, folder: Path) -> ApiServer:
        """The same server and credentials, reached at another address (a proxy), with a kubeconfig in the folder."""
        return self._as(replace(self, url=url, ca_file=ca_file), folder)

    def with_token(self, token: str, folder: Path) -> ApiServer:
        """The same server as somebody else, with a kubeconfig in the folder."""
        return self._as(replace(self, token=token), folder)

    def as_service_account(self, namespace: str, name: str, folder: Path) -> ApiServer:
        """The same server as a ServiceAccount, which is made if need be and may do what its roles allow."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        made = self.request("POST", accounts, {"metadata": {"name": name}})
        assert made.status in (HTTPStatus.CREATED, HTTPStatus.CONFLICT), made
        token = self.request("POST", f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 3600}})
        assert token.status == HTTPStatus.CREATED, token
        return self.with_token(token.body["status"]["token"], folder)

    @staticmethod
    def _as(server: ApiServer, folder: Path) -> ApiServer:
        path = server.write_kubeconfig(folder / f"kubeconfig-{secrets.token_hex(4)}")
        return replace(server, kubeconfig=path)


def start(kind: Kind, folder: Path, say: Say) -> AbstractContextManager[ApiServer]:
    """A server of the kind for one test session; a long build before it shows its progress."""
    if kind == "embedded":
        return start_embedded(folder)
    running = os.environ.get(RUNNING_SERVER)
    return use_running(Path(running), folder) if running else start_real(folder, say)


@contextmanager
def start_real(folder: Path, say: Say) -> Iterator[ApiServer]:
    """A control plane of our own."""
    binaries.ensure(*control_plane.PROGRAMS, say=say)
    with ControlPlane(folder / "control-plane") as plane:
        admin = plane.admin
        yield ApiServer(
            admin.url,
            admin.ca_file,
            admin.token,
            plane.kubeconfig,
            plane.version,
            "real",
            plane,
            plane.api_server_id(),
        )


@contextmanager
def use_running(kubeconfig: Path, folder: Path) -> Iterator[ApiServer]:
    """A server that somebody else started and will stop."""
    try:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        url, token = cluster["server"], user["token"]
        ca_data = cluster.get("certificate-authority-data")
        ca = (
            base64.b64decode(ca_data)
            if ca_data
            else (kubeconfig.parent / cluster["certificate-authority"]).read_bytes()
        )
    except (OSError, KeyError, IndexError, TypeError, yaml.YAMLError) as error:
        raise pytest.UsageError(
            f"{RUNNING_SERVER}={kubeconfig}: needs a server, a CA and a token: {error!r}"
        ) from error
    ca_file = folder / "ca.crt"
    ca_file.write_bytes(ca)
    access = Access(url, ca_file, token)
    if not access.ready():
        raise pytest.UsageError(f"{RUNNING_SERVER}={kubeconfig}: {url} does not answer /readyz")
    version = access.request("GET", "/version").body["gitVersion"]
    yield ApiServer(url, ca_file, token, kubeconfig, version)


@contextmanager
def start_embedded(folder: Path) -> Iterator[ApiServer]:
    """Our own embedded server, which keeps its data in the folder."""
    data = folder / "embedded"
    command = [sys.executable, "-m", "gpu_runtime.local.apiserver", "--data-dir", str(data)]
    process = Process("embedded", command, folder / "embedded.log")
    try:
        wait_until((data / "kubeconfig").exists, "the embedded server answers", [process])
        with use_running(data / "kubeconfig", folder) as server, upkeep(data / "kubeconfig"):
            yield replace(server, kind="embedded", process_id=process.pid)
    finally:
        process.kill()


@contextmanager
def fresh_namespace(server: ApiServer, hint: str) -> Iterator[str]:
    """A namespace of its own that pods can be made in; its deletion is asked for at the end and not waited for."""
    name = namespace_name(hint, secrets.token_hex(3))
    made = server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.status == HTTPStatus.CREATED, made
    # Pods are refused until a controller has made the namespace's ServiceAccount.
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: server.request("GET", account).status == HTTPStatus.OK, f"{name} has a ServiceAccount")
    try:
        yield name
    finally:
        server.request("DELETE", f"/api/v1/namespaces/{name}")


def namespace_name(hint: str, unique: str) -> str:
    """A legal name in which a person finds the test again."""
    words = re.sub(r"[^a-z0-9]+", "-", hint.lower().removeprefix("test_"))[:LONGEST_HINT].strip("-")
    return "-".join(part for part in ("t", words, unique) if part)
