"""The credentials of one user: a JWT that says what the user may do, and the key that proves it is the user."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any, Self

from gpu_runtime.serverless.credentials.nkeys import InvalidKey, KeyPair

_JWT = re.compile(r"-+BEGIN NATS USER JWT-+\s+([\w.-]+)\s+-+END")
_SEED = re.compile(r"-+BEGIN USER NKEY SEED-+\s+(\w+)\s+-+END")


class InvalidCredentials(ValueError):
    """The text does not contain credentials. The message never quotes the text."""


def inbox_prefix(user: str) -> str:
    """The beginning of the subjects on which a user gets answers. No other user may subscribe to them."""
    return f"_INBOX.{user}"


@dataclass(frozen=True, repr=False)
class UserCredentials:
    jwt: str
    key: KeyPair

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads the contents of a .creds file, which the tools of NATS write too."""
        jwt, seed = _JWT.search(text), _SEED.search(text)
        if jwt is None or seed is None:
            raise InvalidCredentials("it must contain a NATS USER JWT and a USER NKEY SEED")
        try:
            key = KeyPair.from_seed(seed[1])
        except InvalidKey as error:
            raise InvalidCredentials(f"the USER NKEY SEED cannot be used: {error}") from None
        if key.kind != "user":
            raise InvalidCredentials(f"the USER NKEY SEED is the key of an {key.kind}")
        return cls(jwt[1], key)

    @property
    def text(self) -> str:
        """The contents of a .creds file. Secret."""
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.key.seed}\n------END USER NKEY SEED------\n"
        )

    def connect_options(self) -> dict[str, Any]:
        """The arguments of nats-py's `connect`. The key signs the server's challenge and never leaves this process."""
        return {
            "user_jwt_cb": self.jwt.encode,
            "signature_cb": lambda nonce: base64.b64encode(self.key.sign(nonce.encode())),
            "inbox_prefix": inbox_prefix(self.key.public),
        }

    def __repr__(self) -> str:
        return f"UserCredentials({self.key.public})"
