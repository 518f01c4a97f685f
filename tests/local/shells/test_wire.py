"""What clients other than kubectl may send: nonsense, too much at once, nothing at all."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from local.shells.person import Person
from local.shells.scenarios import POD

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDIN, STDOUT, ERROR, RESIZE, CLOSE = b"\0", b"\1", b"\3", b"\4", b"\xff"
LONGEST_SECONDS = 60
AT_ONCE = 200


class Client:
    """Speaks the protocol itself."""

    def __init__(self, person: Person, session: aiohttp.ClientSession) -> None:
        self._session, self._token = session, person.server.token
        self.trust = ssl.create_default_context(cafile=str(person.server.ca_file))
        self.url = f"{person.server.url}/api/v1/namespaces/{person.namespace}/pods"

    async def open(
        self, *command: str, protocols: tuple[str, ...] = (V5,), token: str | None = None, **more: str
    ) -> aiohttp.ClientWebSocketResponse:
        query = [("command", word) for word in command] + [("stdout", "true"), *more.items()]
        return await self.connect("exec", protocols, token, query)

    async def connect(
        self,
        what: str,
        protocols: tuple[str, ...],
        token: str | None = None,
        query: list[tuple[str, str]] | None = None,
    ) -> aiohttp.ClientWebSocketResponse:
        headers = {"Authorization": f"Bearer {self._token if token is None else token}"}
        return await self._session.ws_connect(
            f"{self.url}/{POD}/{what}", params=query, protocols=protocols, headers=headers, ssl=self.trust
        )


async def heard(socket: aiohttp.ClientWebSocketResponse) -> tuple[bytes, dict[str, Any]]:
    """All output, and the last word."""
    output, last = b"", b""
    async with asyncio.timeout(LONGEST_SECONDS):
        async for message in socket:
            channel, data = message.data[:1], message.data[1:]
            if channel == STDOUT:
                output += data
            elif channel == ERROR:
                last += data
    found: dict[str, Any] = json.loads(last)
    return output, found


@pytest.fixture
async def client(person: Person) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Client(person, session)


async def test_nonsense_on_any_channel_is_passed_over(client: Client) -> None:
    socket = await client.open("sh", "-c", "read x; stty size; echo $x", tty="true", stdin="true")
    await socket.send_bytes(RESIZE + b'{"Width": 61, "Height": 19}')
    for sizes in (b"", b"{", b"[]", b'{"Width": -1, "Height": 9}', b'{"Width": 70000, "Height": 70000}', b'"a"'):
        await socket.send_bytes(RESIZE + sizes)
    for nonsense in (b"", b"\x09x", b"\x01x", b"\x03x", CLOSE, CLOSE + b"\x07", CLOSE + b"\0\0"):
        await socket.send_bytes(nonsense)
    await socket.send_str("words")
    await socket.send_bytes(STDIN + b"end\n")
    output, last = await heard(socket)
    assert b"19 61\r\nend\r\n" in output
    assert last == {"metadata": {}, "status": "Success"}


async def test_the_end_of_input_alone_can_be_said(client: Client) -> None:
    socket = await client.open("sh", "-c", "cat; exit 4", stdin="true")
    await socket.send_bytes(STDIN + b"all\n")
    await socket.send_bytes(CLOSE + STDIN)
    output, last = await heard(socket)
    assert output == b"all\n"
    assert last["details"] == {"causes": [{"reason": "ExitCode", "message": "4"}]}
    assert (last["status"], last["reason"]) == ("Failure", "NonZeroExitCode")


async def test_an_older_protocol_is_spoken_too(client: Client) -> None:
    socket = await client.open("echo", "hi", protocols=("v3.channel.k8s.io", V4))
    assert socket.protocol == V4
    assert await heard(socket) == (b"hi\n", {"metadata": {}, "status": "Success"})


@pytest.mark.parametrize(
    ("how", "status"), [({"token": ""}, 401), ({"token": "wrong"}, 401), ({"protocols": ("other",)}, 400)]
)
async def test_who_may_not_or_speaks_otherwise_is_refused(client: Client, how: Any, status: int) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await client.open("true", **how)
    assert refused.value.status == status


@pytest.mark.parametrize("nonsense", [b"GET / HTTP/1.1\r\n\r\n", b"\x80\x03\0\1\0\0\0\4abcd", b"\xff" * 100])
async def test_what_is_no_frame_ends_a_forwarding_and_nothing_else(
    client: Client, person: Person, nonsense: bytes
) -> None:
    socket = await client.connect("portforward", ("SPDY/3.1+portforward.k8s.io",))
    await socket.send_bytes(nonsense)
    async with asyncio.timeout(LONGEST_SECONDS):
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert await asyncio.to_thread(person.output_of, POD, "echo", "hi") == "hi\n"


async def test_two_hundred_commands_are_open_at_once(client: Client, person: Person) -> None:
    sockets = await asyncio.gather(*(client.open("cat", stdin="true") for _ in range(AT_ONCE)))
    for number, socket in enumerate(sockets):
        await socket.send_bytes(STDIN + f"{number}\n".encode())
    assert await asyncio.to_thread(person.output_of, POD, "echo", "one more") == "one more\n"
    for socket in sockets:
        await socket.send_bytes(CLOSE + STDIN)
    answers = await asyncio.gather(*(heard(socket) for socket in sockets))
    assert [output for output, _ in answers] == [f"{number}\n".encode() for number in range(AT_ONCE)]
    assert all(last["status"] == "Success" for _, last in answers)
