from __future__ import annotations

import base64
import ssl
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from equipment.clock import FakeClock
from equipment.mutation import mutant
from gpu_runtime.kube import ConfigError, config, load_config
from realkube.certificates import Authority


@pytest.fixture(autouse=True)
def no_cluster_at_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def a_kubeconfig(path: Path, *, name: str = "main", server: str = "http://127.0.0.1:8001", **user: Any) -> Path:
    cluster = {"server": server, **user.pop("cluster", {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def test_a_token_in_the_kubeconfig_is_sent(tmp_path: Path) -> None:
    loaded = load_config(a_kubeconfig(tmp_path / "k", token="secret"))
    assert (loaded.server, loaded.namespace) == ("http://127.0.0.1:8001", "ns-main")
    assert await loaded.token.token() == "secret"
    assert loaded.source == f"{tmp_path / 'k'}, context main"


@mutant("kube/credentials.py", "now - self._read_at > REREAD_SECONDS", "False")
async def test_a_token_file_is_relative_to_the_kubeconfig_and_read_again_every_minute(tmp_path: Path) -> None:
    clock = FakeClock()
    (tmp_path / "token").write_text("first\n")
    loaded = load_config(a_kubeconfig(tmp_path / "k", tokenFile="token"), clock=clock)
    assert await loaded.token.token() == "first"
    (tmp_path / "token").write_text("second\n")
    assert await loaded.token.token() == "first"
    clock.advance(61.0)
    assert await loaded.token.token() == "second"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    loaded = load_config(a_kubeconfig(tmp_path / "k", tokenFile="token"), clock=FakeClock())
    await loaded.token.token()
    (tmp_path / "token").write_text("second")
    assert loaded.token.expire()
    assert await loaded.token.token() == "second"


PLUGIN = """#!/bin/sh
echo run >> "$COUNT"
case "$KUBERNETES_EXEC_INFO" in *ExecCredential*) ;; *) exit 3;; esac
printf '{"kind":"ExecCredential","status":{"token":"%s","expirationTimestamp":"2026-01-01T00:20:00Z"}}' "$1"
"""


async def test_an_exec_plugin_is_run_when_its_token_is_about_to_expire(tmp_path: Path) -> None:
    clock = FakeClock()  # 2026-01-01T00:16:40Z
    plugin, count = tmp_path / "plugin", tmp_path / "count"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    block = {"command": "./plugin", "args": ["fresh"], "env": [{"name": "COUNT", "value": str(count)}]}
    loaded = load_config(a_kubeconfig(tmp_path / "k", exec=block), clock=clock)
    assert [await loaded.token.token(), await loaded.token.token()] == ["fresh", "fresh"]
    assert count.read_text() == "run\n"
    clock.advance(175.0)
    await loaded.token.token()
    assert count.read_text() == "run\nrun\n"


PLUGIN_TROUBLE = {
    "a plugin that is not installed": ("exit 0", "/nowhere/plugin", "cannot run the credential plugin /nowhere/plugin"),
    "a plugin that fails": ("echo not logged in >&2; exit 1", None, "failed: not logged in"),
    "a plugin that prints something else": ("echo hello", None, "printed no ExecCredential"),
    "a plugin that gives a certificate": (
        'echo \'{"status":{"clientCertificateData":"x"}}\'',
        None,
        "returned a client certificate; only tokens are supported",
    ),
}


@pytest.mark.parametrize(("script", "command", "want"), PLUGIN_TROUBLE.values(), ids=PLUGIN_TROUBLE)
async def test_a_bad_exec_plugin_is_one_clear_line(tmp_path: Path, script: str, command: str | None, want: str) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(0o755)
    loaded = load_config(a_kubeconfig(tmp_path / "k", exec={"command": command or str(plugin)}))
    with pytest.raises(ConfigError, match=want):
        await loaded.token.token()


def test_files_listed_in_the_environment_are_merged_and_missing_ones_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = a_kubeconfig(tmp_path / "first", name="one", server="http://127.0.0.1:1")
    second = a_kubeconfig(tmp_path / "second", name="two", server="http://127.0.0.1:2")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{first}:{second}")
    assert load_config().server == "http://127.0.0.1:1"
    assert load_config(context="two").server == "http://127.0.0.1:2"


async def test_a_pod_uses_its_service_account_and_reads_the_token_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "ca.crt").write_bytes(Authority(tmp_path).ca_file.read_bytes())
    (account / "token").write_text("first")
    (account / "namespace").write_text("tenant\n")
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", account)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    clock = FakeClock()
    loaded = load_config(clock=clock)
    assert (loaded.server, loaded.namespace) == ("https://[fd00::1]:6443", "tenant")
    assert await loaded.token.token() == "first"
    (account / "token").write_text("rotated")
    clock.advance(61.0)
    assert await loaded.token.token() == "rotated"


def text(content: str) -> Any:
    return lambda path: path.write_text(content)


def kubeconfig(**changes: Any) -> Any:
    return lambda path: a_kubeconfig(path, **changes)


BAD: dict[str, tuple[Any, str]] = {
    "a file that is not there": (lambda path: None, "cannot read the kubeconfig .*/k: No such file"),
    "a file that is no YAML": (text("a: [b"), "/k is not YAML"),
    "a file that is something else": (text("clusters: hello"), "/k is not a kubeconfig: .*clusters"),
    "an empty file": (text("{}"), "/k: no current-context"),
    "a context that is not there": (
        text("current-context: c\ncontexts: []"),
        "no context named 'c' \\(there is: none\\)",
    ),
    "a server that is no address": (
        kubeconfig(server="localhost:80"),
        "server 'localhost:80' is not an http\\(s\\) address",
    ),
    "a server with a bad port": (kubeconfig(server="http://h:99999"), "is not an http\\(s\\) address"),
    "an authority that is no certificate": (
        kubeconfig(server="https://h", cluster={"certificate-authority-data": base64.b64encode(b"x").decode()}),
        "certificate-authority: no usable certificate",
    ),
    "an authority that is not base64": (
        kubeconfig(server="https://h", cluster={"certificate-authority-data": "§§"}),
        "certificate-authority: the data is not base64-encoded PEM",
    ),
    "an authority file that is not there": (
        kubeconfig(server="https://h", cluster={"certificate-authority": "ca.crt"}),
        "certificate-authority: cannot read .*/ca.crt: No such file",
    ),
    "a certificate without its key": (
        kubeconfig(server="https://h", **{"client-certificate-data": base64.b64encode(b"x").decode()}),
        "client-certificate and client-key must both be set",
    ),
    "a certificate that is none": (
        kubeconfig(
            server="https://h",
            **{
                "client-certificate-data": base64.b64encode(b"x").decode(),
                "client-key-data": base64.b64encode(b"y").decode(),
            },
        ),
        "client-certificate and client-key do not match",
    ),
    "a removed authentication": (kubeconfig(**{"auth-provider": {"name": "gcp"}}), "auth-provider is not supported"),
    "a password": (kubeconfig(username="admin"), "username and password are not supported"),
    "a proxy": (kubeconfig(cluster={"proxy-url": "http://p"}), "proxy-url is not supported"),
}


@pytest.mark.parametrize(("write", "want"), BAD.values(), ids=BAD)
def test_a_bad_kubeconfig_is_one_clear_line_that_names_the_file(tmp_path: Path, write: Any, want: str) -> None:
    path = tmp_path / "k"
    write(path)
    with pytest.raises(ConfigError, match=want) as caught:
        load_config(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_cluster_at_all_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match="no cluster configured: set KUBECONFIG"):
        load_config()


def test_a_client_key_is_never_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = ssl.SSLContext.load_cert_chain

    def spy(self: Any, certfile: str, *rest: Any) -> None:
        seen.append(stat.S_IMODE(Path(certfile).stat().st_mode))
        real(self, certfile, *rest)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    authority = Authority(tmp_path)
    pem = authority.ca_file.read_bytes()
    user = {
        "client-certificate-data": base64.b64encode(pem).decode(),
        "client-key-data": base64.b64encode(pem).decode(),
    }
    with pytest.raises(ConfigError):
        load_config(a_kubeconfig(tmp_path / "k", server="https://h", **user))
    assert seen == [0o600]
    assert list((tmp_path / "tmp").iterdir()) == []
