"""Signs the credentials of workers with the key of their account at the broker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gpu_runtime.kube.clock import SYSTEM_CLOCK, Clock
from gpu_runtime.serverless.credentials.signing import AccountSigner, worker_credentials
from gpu_runtime.serverless.subjects import Function


@dataclass(frozen=True)
class WorkerSigner:
    """All workers of a function share credentials that never expire. To withdraw them, replace the signing key."""

    account: AccountSigner
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def read(cls, path: str | None) -> Self | None:
        """The signer of a key file. ConfigError when the file cannot be used."""
        return cls(AccountSigner.read(Path(path))) if path is not None else None

    @property
    def identity(self) -> str:
        return f"{self.account.account} {self.account.key.public}"

    def sign(self, function: Function) -> str:
        return worker_credentials(self.account, function, issued=int(self.clock.now().timestamp())).text
