"""Plain requests to an API server, for code that runs before any client of ours and needs no event loop."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from realkube.certificates import Pair

TIMEOUT = 30.0


@dataclass(frozen=True)
class Answer:
    """What the server said: its status and its decoded body (text where it is not JSON)."""

    status: int
    body: Any


@dataclass(frozen=True)
class Access:
    """An API server and the credentials to use it."""

    url: str
    ca_file: Path
    token: str

    @classmethod
    def of_kubeconfig(cls, kubeconfig: Path, folder: Path) -> Access:
        """The server and the token that a kubeconfig names; the certificate of its CA is put into `folder`."""
        config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        ca_file = folder / "ca.crt"
        ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        return cls(cluster["server"], ca_file, user["token"])

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Answer:
        """Send one request; any status is an answer, only a broken connection is an error."""
        address = urlsplit(self.url)
        context = ssl.create_default_context(cafile=str(self.ca_file))
        connection = http.client.HTTPSConnection(address.netloc, context=context, timeout=TIMEOUT)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, "Accept": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        return Answer(response.status, json.loads(text) if is_json else text)

    def ready(self) -> bool:
        """Whether the server answers and calls itself ready."""
        try:
            return self.request("GET", "/readyz").status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False

    def write_kubeconfig(self, path: Path, client: Pair | None = None) -> Path:
        """Write a kubeconfig that needs no other file: as the token's user, or as a client certificate's."""
        user = {"token": self.token}
        if client is not None:
            user = {"client-certificate-data": in_base64(client.certificate), "client-key-data": in_base64(client.key)}
        cluster = {"server": self.url, "certificate-authority-data": in_base64(self.ca_file)}
        name = "gpu-runtime-test"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.touch(mode=0o600)
        unfinished.write_text(json.dumps(config, indent=2))  # JSON is YAML
        unfinished.rename(path)  # whoever waits for the file never sees half of it
        return path


def in_base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
