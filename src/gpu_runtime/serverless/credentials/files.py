"""The files of a broker's credentials: for the broker, for each process that uses it, and for the activator to sign."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.credentials.keyring import ROLES, KeyRing
from gpu_runtime.serverless.credentials.nkeys import InvalidKey
from gpu_runtime.supervisor.files import write_private


@dataclass(frozen=True)
class CredentialFiles:
    """A folder of files that only their owner may read."""

    folder: Path

    @property
    def keys(self) -> Path:
        """All keys. Everything else is made from them."""
        return self.folder / "keys.json"

    @property
    def accounts(self) -> Path:
        """The part of the broker's configuration that says whom it trusts. It contains no secret."""
        return self.folder / "accounts.conf"

    @property
    def signing_key(self) -> Path:
        """Signs the credentials of workers."""
        return self.folder / "workers.signing-key"

    def credentials(self, process: str) -> Path:
        return self.folder / f"{process}.creds"

    def write(self, *, issued: int) -> None:
        """Writes all files. The keys are made once: workers keep the credentials that these keys signed."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        keys = self._keys(issued)
        for role in ROLES:
            write_private(self.credentials(role), keys.role_credentials(role).text.encode())
        write_private(self.signing_key, keys.worker_signer().text.encode())
        write_private(self.accounts, keys.server_accounts().encode())

    def _keys(self, issued: int) -> KeyRing:
        try:
            return KeyRing.decode(self.keys.read_bytes())
        except FileNotFoundError:
            keys = KeyRing.generate(issued=issued)
            write_private(self.keys, keys.encode())
            return keys
        except InvalidKey as error:
            raise ConfigError(f"{self.keys}: {error}") from error
