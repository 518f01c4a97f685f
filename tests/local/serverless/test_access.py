"""Brokers that others run: TLS, client certificates, and users with passwords."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from equipment.nats import SMALL_STREAMS, running_nats
from equipment.nats_credentials import connected
from equipment.waiting import eventually
from gpu_runtime.config.nats import NatsSettings, NatsTls
from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.broker import streams
from gpu_runtime.serverless.broker.connection import Broker, connect_options
from gpu_runtime.serverless.broker.publishing import publish_once
from realkube.certificates import Authority, Pair


def tls_block(authority: Authority, pair: Pair, *, verify: bool) -> str:
    return (
        f'tls {{ cert_file: "{pair.certificate}", key_file: "{pair.key}", '
        f'ca_file: "{authority.ca_file}", verify: {str(verify).lower()} }}'
    )


async def problem_of(settings: NatsSettings, words: str) -> None:
    async with Broker(settings, "refused") as broker:
        await eventually(lambda: words in broker.problem, what=f"the connection's problem is: {words}")
        assert not broker.nats.is_connected


async def test_a_client_trusts_the_authority_of_its_settings_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server("broker", ["127.0.0.1"])
    async with running_nats(tmp_path, extra=tls_block(authority, pair, verify=False), with_streams=False) as server:
        async with connected(replace(server.settings, tls=NatsTls(caFile=str(authority.ca_file))), "tls") as broker:
            assert await streams.ensure(broker, SMALL_STREAMS) == []
        await problem_of(replace(server.settings, tls=NatsTls()), "certificate verify failed")
        await problem_of(server.settings, "certificate verify failed")


async def test_a_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server("broker", ["10.0.0.1"])
    async with running_nats(tmp_path, extra=tls_block(authority, pair, verify=False), with_streams=False) as server:
        settings = replace(server.settings, tls=NatsTls(caFile=str(authority.ca_file)))
        await problem_of(settings, "IP address mismatch")


async def test_a_broker_that_asks_for_a_certificate_gets_the_clients(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, client = authority.server("broker", ["127.0.0.1"]), authority.client("runtime-api")
    async with running_nats(tmp_path, extra=tls_block(authority, pair, verify=True), with_streams=False) as server:
        tls = NatsTls(caFile=str(authority.ca_file), certFile=str(client.certificate), keyFile=str(client.key))
        async with connected(replace(server.settings, tls=tls), "tls") as broker:
            assert await streams.ensure(broker, SMALL_STREAMS) == []
        async with Broker(replace(server.settings, tls=NatsTls(caFile=str(authority.ca_file))), "refused") as broker:
            await eventually(lambda: broker.problem not in ("", "not connected yet"), what="the broker refuses")
            assert not broker.nats.is_connected


def test_certificates_that_cannot_be_read_are_a_wrong_setting(tmp_path: Path) -> None:
    for tls in (NatsTls(caFile="/nowhere"), NatsTls(certFile="/nowhere", keyFile="/nowhere")):
        with pytest.raises(ConfigError, match=r"nats\.tls: .*No such file"):
            connect_options(NatsSettings(url="nats://x:1", tls=tls))


async def test_users_with_passwords_get_their_answers_where_no_other_user_reads(tmp_path: Path) -> None:
    users = (
        'authorization { users: [ { user: runtime-api, password: "right", permissions: {\n'
        '  publish: ["inv.>", "$JS.API.>"], subscribe: ["_INBOX.runtime-api.>"] } } ] }'
    )
    (tmp_path / "right").write_text("right\n")
    (tmp_path / "wrong").write_text("wrong\n")
    async with running_nats(tmp_path, extra=users, with_streams=False) as server:
        settings = replace(server.settings, user="runtime-api", passwordFile=str(tmp_path / "right"))
        async with connected(settings, "password") as broker:
            assert await streams.ensure(broker, SMALL_STREAMS) == []
            assert await publish_once(broker, "inv.a.b.c.1.n", b"{}") is not None
        await problem_of(replace(settings, passwordFile=str(tmp_path / "wrong")), "Authorization Violation")
        await problem_of(server.settings, "Authorization Violation")
