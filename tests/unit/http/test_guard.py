"""Who is let in, by settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from gpu_runtime.config import ConfigError, RuntimeApiSettings
from gpu_runtime.http.server import guard
from gpu_runtime.service.errors import Forbidden


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
