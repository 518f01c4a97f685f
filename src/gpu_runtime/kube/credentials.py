"""Bearer tokens: fixed, from a file that is rotated, or from an exec plugin."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from gpu_runtime.kube.clock import Clock
from gpu_runtime.kube.errors import ConfigError

REREAD_SECONDS = 60.0
EXEC_TIMEOUT_SECONDS = 60.0


class TokenSource(Protocol):
    async def token(self) -> str | None:
        """The token to send with the next request; None sends no Authorization header."""

    def expire(self) -> bool:
        """Call it when the server refused the last token. True when the next token may be different."""


class StaticToken:
    def __init__(self, token: str | None) -> None:
        self._token = token

    async def token(self) -> str | None:
        return self._token

    def expire(self) -> bool:
        return False


class FileToken:
    """A token file that somebody else rotates (projected service-account tokens live about an hour)."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at: float | None = None

    async def token(self) -> str | None:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at > REREAD_SECONDS:
            try:
                self._token = self._path.read_text().strip()  # a few hundred bytes, once a minute
            except OSError as error:
                raise ConfigError(f"cannot read the token file {self._path}: {error.strerror}") from error
            self._read_at = now
        return self._token

    def expire(self) -> bool:
        self._read_at = None
        return True


class ExecVariable(msgspec.Struct, frozen=True):
    name: str
    value: str


class ExecPlugin(msgspec.Struct, frozen=True):
    """A kubeconfig's `exec` block."""

    command: str
    apiVersion: str = "client.authentication.k8s.io/v1"
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    installHint: str = ""


class _ExecStatus(msgspec.Struct, frozen=True):
    token: str | None = None
    expirationTimestamp: datetime | None = None
    clientCertificateData: str | None = None


class _ExecCredential(msgspec.Struct, frozen=True):
    status: _ExecStatus


class ExecToken:
    """Runs the plugin when there is no token or the token is about to expire."""

    def __init__(self, plugin: ExecPlugin, directory: Path, clock: Clock) -> None:
        self._plugin = plugin
        self._directory = directory
        self._clock = clock
        self._token: str | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    async def token(self) -> str | None:
        async with self._lock:  # one run of the plugin serves all requests that wait for it
            soon = self._clock.now() + timedelta(seconds=30)
            if self._token is None or (self._expires is not None and self._expires <= soon):
                await self._run()
            return self._token

    def expire(self) -> bool:
        self._token = None
        return True

    async def _run(self) -> None:
        plugin = self._plugin
        credential = await _execute(plugin, self._directory)
        if credential.token is None:
            returned = "a client certificate" if credential.clientCertificateData else "no token"
            raise ConfigError(f"the credential plugin {plugin.command} returned {returned}; only tokens are supported")
        self._token, self._expires = credential.token, credential.expirationTimestamp


async def _execute(plugin: ExecPlugin, directory: Path) -> _ExecStatus:
    # A relative command with a slash is relative to the kubeconfig, as for kubectl.
    command = str(directory / plugin.command) if "/" in plugin.command else plugin.command
    asked = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
    env = {**os.environ, "KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode()}
    env.update((variable.name, variable.value) for variable in plugin.env or ())
    try:
        process = await asyncio.create_subprocess_exec(
            command, *(plugin.args or ()), env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        hint = f" ({plugin.installHint.strip().splitlines()[0]})" if plugin.installHint.strip() else ""
        raise ConfigError(f"cannot run the credential plugin {command}: {error.strerror}{hint}") from error
    try:
        out, err = await asyncio.wait_for(process.communicate(), EXEC_TIMEOUT_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ConfigError(f"the credential plugin {command} did not end within {EXEC_TIMEOUT_SECONDS:.0f} s") from None
    if process.returncode != 0:
        errors = err.decode(errors="replace").strip().splitlines()
        raise ConfigError(
            f"the credential plugin {command} failed: {errors[-1] if errors else f'exit {process.returncode}'}"
        )
    try:
        return msgspec.json.decode(out, type=_ExecCredential).status
    except msgspec.MsgspecError as error:
        raise ConfigError(f"the credential plugin {command} printed no ExecCredential: {error}") from error
