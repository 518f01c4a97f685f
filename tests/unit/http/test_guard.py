"""Who is let in, by settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request
from structlog.testing import capture_logs

from equipment.mutation import mutant
from gpu_runtime.config import ConfigError, ProxySettings, RuntimeApiSettings
from gpu_runtime.http.server import guard
from gpu_runtime.http.tokens import Tokens
from gpu_runtime.proxy.server import guard as proxy_guard
from gpu_runtime.rest.errors import Forbidden, Unauthenticated


def admitted(settings: RuntimeApiSettings, host: str) -> bool:
    try:
        guard(settings).admit(make_mocked_request("GET", "/", headers={"Host": host}), open_to_all=True)
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "LOCALHOST", "api.example:1"])
def test_on_loopback_the_api_answers_to_its_own_names(host: str) -> None:
    assert admitted(RuntimeApiSettings(allowedHosts=["api.example"]), host)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8080", "", "localhost.evil"])
def test_a_foreign_name_that_leads_to_loopback_is_refused(host: str) -> None:
    assert not admitted(RuntimeApiSettings(), host)


@pytest.mark.parametrize("address", [":8080", "0.0.0.0:8080", "10.0.0.1:8080", "[::]:8080", "example.org:80"])
def test_off_loopback_the_api_does_not_start_without_tokens(address: str) -> None:
    with pytest.raises(ConfigError, match="tokenFile"):
        guard(RuntimeApiSettings(httpAddr=address))
    assert guard(RuntimeApiSettings(httpAddr=address, auth="none")).tokens is None


@pytest.mark.parametrize("content", ["", "# nobody\n", "only-a-name\n", "a b c\n"])
def test_a_token_file_that_cannot_be_used_is_an_error_that_shows_no_secret(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(content)
    with pytest.raises(ConfigError, match="token file") as error:
        guard(RuntimeApiSettings(tokenFile=str(path)))
    assert "a b c" not in str(error.value)


def test_a_missing_token_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        guard(RuntimeApiSettings(tokenFile=str(tmp_path / "none")))


@pytest.mark.parametrize("name", ["alice@example.com", "-alice", "alice.", "a" * 64, "älice", "team/alice"])
@mutant("http/tokens.py", "if not _LABEL_VALUE.fullmatch(words[0]):", "if False:")
def test_a_token_whose_owner_cannot_be_a_label_is_refused_at_loading_by_its_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# who may\nbob other\n{name} s3cret\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 3: the name must be") as error:
        guard(RuntimeApiSettings(tokenFile=str(path)))
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("name", ["alice", "Alice_B", "a.b-c", "1", "a" * 63])
def test_a_token_whose_owner_can_be_a_label_is_taken(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{name} s3cret\n")
    assert Tokens(path).owner("Bearer s3cret") == name


def test_a_reloaded_file_with_a_bad_owner_changes_nothing_and_the_warning_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("alice s3cret\n")
    tokens = Tokens(path)
    path.write_text("bob other\nalice@example.com s3cret\n")
    with capture_logs() as logs:
        assert tokens.owner("Bearer s3cret") == "alice"
        with pytest.raises(Unauthenticated):
            tokens.owner("Bearer other")
    (warning,) = logs
    assert warning["log_level"] == "warning"
    assert "line 2: the name must be" in warning["problem"]
    path.write_text("bob other\nalice s3cret\n# mended\n")
    assert tokens.owner("Bearer other") == "bob"


@mutant("http/tokens.py", "(stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_ino)", "(stat.st_mtime_ns,)")
def test_a_token_is_revoked_by_a_copy_that_keeps_the_time_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("alice s3cret\n")
    tokens, before = Tokens(path), path.stat()
    path.write_text("alice other2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Unauthenticated):
        tokens.owner("Bearer s3cret")
    assert tokens.owner("Bearer other2") == "alice"


def test_both_servers_answer_to_the_same_names_of_this_machine() -> None:
    for address in ("127.0.0.1:1", "[::1]:1", "localhost:1"):
        api = guard(RuntimeApiSettings(httpAddr=address, allowedHosts=["A.example", "[fd00::1]"]))
        proxy = proxy_guard(ProxySettings(httpAddr=address, allowedHosts=["A.example", "[fd00::1]"]))
        assert api.hosts == proxy.hosts == frozenset({"localhost", "127.0.0.1", "::1", "a.example", "fd00::1"})
