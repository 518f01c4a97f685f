"""Keys, JWTs and files of credentials. Whether a broker accepts them is tested in tests/local/serverless."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.config.nats import NatsSettings
from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.broker.connection import connect_options
from gpu_runtime.serverless.credentials.creds import InvalidCredentials, UserCredentials
from gpu_runtime.serverless.credentials.keyring import KeyRing
from gpu_runtime.serverless.credentials.nkeys import InvalidKey, KeyKind, KeyPair, public_kind
from gpu_runtime.serverless.credentials.permissions import worker_permissions
from gpu_runtime.serverless.credentials.signing import AccountSigner, worker_credentials
from gpu_runtime.serverless.subjects import Function

ECHO = Function("runtime-instance", "echo")
LETTERS: dict[KeyKind, str] = {"operator": "O", "account": "A", "user": "U"}


@pytest.mark.parametrize("kind", LETTERS)
def test_the_text_of_a_key_says_what_it_is_for(kind: KeyKind) -> None:
    key = KeyPair.generate(kind)
    assert key.public.startswith(LETTERS[kind])
    assert key.seed.startswith(f"S{LETTERS[kind]}")
    assert KeyPair.from_seed(key.seed) == key
    assert public_kind(key.public) == kind


@given(st.integers(0, 57), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_a_key_with_a_wrong_letter_is_refused_and_not_quoted(at: int, letter: str) -> None:
    seed = KeyPair("user", bytes(32)).seed
    wrong = seed[:at] + letter + seed[at + 1 :]
    if wrong == seed:
        return
    with pytest.raises(InvalidKey) as refused:
        KeyPair.from_seed(wrong)
    assert wrong not in str(refused.value)


@pytest.mark.parametrize("text", ["", "SU", "ü", "not a key", "A" * 58, KeyPair.generate("user").public])
def test_other_text_is_no_seed(text: str) -> None:
    with pytest.raises(InvalidKey):
        KeyPair.from_seed(text)


def test_no_secret_is_shown_by_accident() -> None:
    ring = KeyRing.generate(issued=1)
    signer, credentials = ring.worker_signer(), ring.role_credentials("activator")
    shown = f"{ring!r} {ring} {signer!r} {credentials!r} {credentials.key!r}"
    for secret in (ring.operator, signer.key.seed, credentials.key.seed, credentials.jwt, repr(signer.key.secret)):
        assert secret not in shown


def test_a_worker_is_a_user_of_the_workers_account_and_of_its_function_alone() -> None:
    signer = KeyRing.generate(issued=1).worker_signer()
    claims = signed_claims(worker_credentials(signer, ECHO, issued=5, expires=9), signer.key)
    assert (claims["iat"], claims["exp"], claims["name"]) == (5, 9, "worker runtime-instance/echo")
    assert claims["nats"]["issuer_account"] == signer.account
    allowed = [*claims["nats"]["pub"]["allow"], *claims["nats"]["sub"]["allow"]]
    assert all(
        "runtime-instance.echo" in subject or "runtime-instance__echo__" in subject or claims["sub"] in subject
        for subject in allowed
    )


def test_functions_never_share_permissions_by_their_names() -> None:
    for function in (
        Function("a_", "b"),
        Function("a", "_b"),
        Function("a", "b.c"),
        Function("*", "b"),
        Function("", "b"),
    ):
        with pytest.raises(ValueError, match=r"subject|'_'"):
            worker_permissions(function)


def test_files_of_the_tools_of_nats_are_read() -> None:
    key = KeyPair.generate("user")
    text = (
        f"-----BEGIN NATS USER JWT-----\r\naaa.bb-b.c_c\r\n------END NATS USER JWT------\r\n\r\n"
        "************************* IMPORTANT *************************\r\n"
        "NKEY Seed printed below can be used to sign and prove identity.\r\n\r\n"
        f"-----BEGIN USER NKEY SEED-----\r\n{key.seed}\r\n------END USER NKEY SEED------\r\n\r\n*****\r\n"
    )
    read = UserCredentials.parse(text)
    assert (read.jwt, read.key) == ("aaa.bb-b.c_c", key)
    assert UserCredentials.parse(read.text) == read


@pytest.mark.parametrize("seed", ["", "SUNO", KeyPair.generate("account").seed])
def test_a_file_without_a_users_key_is_named_and_not_quoted(tmp_path: Path, seed: str) -> None:
    path = tmp_path / "file.creds"
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\nsecret.jwt.here\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    with pytest.raises(InvalidCredentials):
        UserCredentials.parse(path.read_text())
    with pytest.raises(ConfigError, match=r"nats\.credentialsFile: .*file\.creds: ") as refused:
        connect_options(NatsSettings(url="nats://x:1", credentialsFile=str(path)))
    assert "secret" not in str(refused.value)
    assert not seed or seed not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="/nowhere cannot be read: No such file"):
        connect_options(NatsSettings(url="nats://x:1", credentialsFile="/nowhere"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="bytes is not text"):
        connect_options(NatsSettings(url="nats://x:1", user="u", passwordFile=str(tmp_path / "bytes")))


def test_a_signing_key_is_read_from_its_file(tmp_path: Path) -> None:
    signer = KeyRing.generate(issued=1).worker_signer()
    path = tmp_path / "key"
    path.write_text(signer.text)
    assert AccountSigner.read(path) == signer


@pytest.mark.parametrize(
    "text",
    [
        "",
        KeyPair.generate("account").seed,
        f"{KeyPair.generate('user').public}\n{KeyPair.generate('account').seed}\n",
        f"{KeyPair.generate('account').public}\n{KeyPair.generate('user').seed}\n",
        "\xff",
    ],
)
def test_another_file_is_no_signing_key_and_is_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="/key: is not the file of a signing key: ") as refused:
        AccountSigner.read(path)
    assert not any(word in str(refused.value) for word in text.split())


def signed_claims(credentials: UserCredentials, signer: KeyPair) -> dict[str, Any]:
    """The claims of a JWT whose signature is right."""
    signed, _, signature = credentials.jwt.rpartition(".")
    public = base64.b32decode(signer.public + "=" * (-len(signer.public) % 8))[1:33]
    Ed25519PublicKey.from_public_bytes(public).verify(segment(signature), signed.encode())
    claims: dict[str, Any] = msgspec.json.decode(segment(signed.split(".")[1]))
    return claims


def segment(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
