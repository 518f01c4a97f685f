"""Names of Services for pods: what a cluster's DNS must know, and nothing more.

A pod has no way out of this machine, so every other name does not exist.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

from realkube.api import Access

PORT = 53
HEADER = struct.Struct("!HHHHHH")  # id, flags, and the number of questions, answers, authorities, additionals
QUESTION_END = struct.Struct("!HH")  # type, class
ANSWER = struct.Struct("!HHHIH")  # name, type, class, seconds to live, length
NAME_OF_QUESTION = 0xC00C  # a pointer to where a message's first name always stands
ADDRESS_TYPE, INTERNET = 1, 1
RESPONSE, AUTHORITATIVE, RECURSION = 0x8000, 0x0400, 0x0180
NO_SUCH_NAME = 3
TIME_TO_LIVE = 5

Lookup = Callable[[str], list[str] | None]  # the addresses of a name; None where there is no such name


@dataclass(frozen=True)
class Question:
    """One name that somebody asks for."""

    message_id: int
    name: str
    kind: int
    wire: bytes  # as it came, because an answer repeats it

    @classmethod
    def read(cls, message: bytes) -> Question:
        """The first question of a message; raises where there is none to be read."""
        message_id, *_ = HEADER.unpack_from(message)
        labels, position = [], HEADER.size
        while length := message[position]:
            labels.append(message[position + 1 : position + 1 + length].decode("ascii").lower())
            position += 1 + length
        kind, _ = QUESTION_END.unpack_from(message, position + 1)
        return cls(message_id, ".".join(labels), kind, message[HEADER.size : position + 1 + QUESTION_END.size])


def answer(message: bytes, lookup: Lookup) -> bytes:
    """The reply to one query."""
    question = Question.read(message)
    addresses = lookup(question.name)
    found = addresses if addresses and question.kind == ADDRESS_TYPE else []
    flags = RESPONSE | AUTHORITATIVE | RECURSION | (NO_SUCH_NAME if addresses is None else 0)
    records = [
        ANSWER.pack(NAME_OF_QUESTION, ADDRESS_TYPE, INTERNET, TIME_TO_LIVE, 4) + ipaddress.IPv4Address(each).packed
        for each in found
    ]
    return HEADER.pack(question.message_id, flags, 1, len(records), 0, 0) + question.wire + b"".join(records)


class ServiceNames:
    """Looks names up in the API server: `service.namespace.svc.<domain>`, headless Services by their endpoints."""

    def __init__(self, access: Access, domain: str) -> None:
        self._access = access
        self._suffix = ["svc", *domain.split(".")]

    def __call__(self, name: str) -> list[str] | None:
        """The Service's addresses."""
        match name.split("."):
            case [service, namespace, *rest] if rest == self._suffix:
                found = self._access.request("GET", f"/api/v1/namespaces/{namespace}/services/{service}")
            case _:
                return None
        if found.status != 200:
            return None
        address = found.body["spec"].get("clusterIP")
        return [address] if address and address != "None" else self._endpoints(namespace, service)

    def _endpoints(self, namespace: str, service: str) -> list[str]:
        selector = f"labelSelector=kubernetes.io/service-name%3D{service}"
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}"
        slices = self._access.request("GET", path).body["items"]
        endpoints = [endpoint for each in slices for endpoint in each.get("endpoints") or ()]
        ready = [endpoint for endpoint in endpoints if endpoint.get("conditions", {}).get("ready", True)]
        return [address for endpoint in ready for address in endpoint["addresses"]]


def serve(address: str, lookup: Lookup) -> None:
    """Answer queries for ever; one that cannot be read or looked up gets no answer, and the client asks again."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.bind((address, PORT))
        while True:
            message, client = port.recvfrom(4096)
            try:
                port.sendto(answer(message, lookup), client)
            except Exception as error:
                print(f"dns: {client[0]}: {error!r}", file=sys.stderr, flush=True)
