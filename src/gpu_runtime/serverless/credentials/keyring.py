"""All keys of a broker. Everything that the broker and its users read is made from them."""

from __future__ import annotations

from typing import get_args

import msgspec

from gpu_runtime.serverless.credentials.accounts import exports, imports
from gpu_runtime.serverless.credentials.creds import UserCredentials
from gpu_runtime.serverless.credentials.jwt import account_jwt, operator_jwt
from gpu_runtime.serverless.credentials.nkeys import InvalidKey, KeyPair
from gpu_runtime.serverless.credentials.permissions import Role, role_permissions
from gpu_runtime.serverless.credentials.signing import AccountSigner

ROLES: tuple[Role, ...] = get_args(Role)


class KeyRing(msgspec.Struct, frozen=True, kw_only=True):
    """Seeds. The same key ring gives the same JWTs each time, so a broker that runs can be adopted."""

    issued: int
    operator: str
    system: str
    platform: str
    workers: str
    workersSigner: str
    users: dict[str, str]

    @classmethod
    def generate(cls, *, issued: int) -> KeyRing:
        account = [KeyPair.generate("account").seed for _ in range(4)]
        return cls(
            issued=issued,
            operator=KeyPair.generate("operator").seed,
            system=account[0],
            platform=account[1],
            workers=account[2],
            workersSigner=account[3],
            users={role: KeyPair.generate("user").seed for role in ROLES},
        )

    @classmethod
    def decode(cls, text: bytes) -> KeyRing:
        """InvalidKey when the text is not a complete key ring."""
        try:
            ring = msgspec.json.decode(text, type=KeyRing)
        except msgspec.DecodeError:
            raise InvalidKey("it is not a key ring") from None
        missing = set(ROLES) - ring.users.keys()
        if missing:
            raise InvalidKey(f"the key ring has no key of {', '.join(sorted(missing))}")
        ring.server_accounts()  # reads every key but the users'
        for role in ROLES:
            ring.role_credentials(role)
        return ring

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    def __repr__(self) -> str:
        return "KeyRing()"  # without the seeds

    def server_accounts(self) -> str:
        """The lines of the broker's configuration that say whom it trusts."""
        operator, system, platform, workers = (
            KeyPair.from_seed(seed) for seed in (self.operator, self.system, self.platform, self.workers)
        )
        issued, signer = self.issued, KeyPair.from_seed(self.workersSigner).public
        accounts = {
            system.public: account_jwt(operator, system.public, "SYSTEM", issued=issued),
            platform.public: account_jwt(
                operator, platform.public, "PLATFORM", issued=issued, streams=True, exports=exports()
            ),
            workers.public: account_jwt(
                operator, workers.public, "WORKERS", issued=issued, signers=[signer], imports=imports(platform.public)
            ),
        }
        return "\n".join(
            (
                f'operator: "{operator_jwt(operator, system.public, issued=issued)}"',
                f'system_account: "{system.public}"',
                "resolver: MEMORY",
                "resolver_preload: {",
                *(f'  {account}: "{jwt}"' for account, jwt in accounts.items()),
                "}",
            )
        )

    def role_credentials(self, role: Role) -> UserCredentials:
        platform, user = KeyPair.from_seed(self.platform), KeyPair.from_seed(self.users[role])
        return AccountSigner(platform.public, platform).user(role, role_permissions(role), issued=self.issued, key=user)

    def worker_signer(self) -> AccountSigner:
        return AccountSigner(KeyPair.from_seed(self.workers).public, KeyPair.from_seed(self.workersSigner))
