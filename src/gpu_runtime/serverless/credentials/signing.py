"""Signs users of an account: the processes, and one user for the workers of each function."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.credentials.creds import UserCredentials
from gpu_runtime.serverless.credentials.jwt import user_jwt
from gpu_runtime.serverless.credentials.nkeys import InvalidKey, KeyPair, public_kind
from gpu_runtime.serverless.credentials.permissions import Permissions, worker_permissions
from gpu_runtime.serverless.subjects import Function


@dataclass(frozen=True)
class AccountSigner:
    """Signs users of one account: with a signing key of the account, or with the account's own key."""

    account: str
    key: KeyPair

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the form that `text` writes. InvalidKey says what is wrong, without a part of the key."""
        lines = text.split()
        if len(lines) != 2:
            raise InvalidKey("it must have two lines: the public key of the account, and the seed of its signing key")
        account, key = lines[0], KeyPair.from_seed(lines[1])
        if public_kind(account) != "account" or key.kind != "account":
            raise InvalidKey("both keys must be those of an account")
        return cls(account, key)

    @classmethod
    def read(cls, path: Path) -> Self:
        """The signer of a file. ConfigError when it cannot be used."""
        try:
            return cls.parse(path.read_text())
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        except ValueError as error:
            why = error if isinstance(error, InvalidKey) else "it is not text"
            raise ConfigError(f"{path}: is not the file of a signing key: {why}") from None

    @property
    def text(self) -> str:
        """The contents of a signing key file. Secret."""
        return f"{self.account}\n{self.key.seed}\n"

    def user(
        self,
        name: str,
        permissions: Permissions,
        *,
        issued: int,
        expires: int | None = None,
        key: KeyPair | None = None,
    ) -> UserCredentials:
        """Credentials that end at `expires` (seconds since 1970), or never. Without a key they get a new one."""
        key = key or KeyPair.generate("user")
        jwt = user_jwt(self.key, self.account, key.public, name, permissions, issued=issued, expires=expires)
        return UserCredentials(jwt, key)


def worker_credentials(
    signer: AccountSigner, function: Function, *, issued: int, expires: int | None = None
) -> UserCredentials:
    """The credentials that all workers of one function share: they reach the subjects of this function alone."""
    return signer.user(f"worker {function}", worker_permissions(function), issued=issued, expires=expires)
