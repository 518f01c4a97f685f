"""Names of Services, as a resolver asks for them."""

from __future__ import annotations

import struct

from realkube.dns import Question, answer

A, AAAA = 1, 28
SERVICES = {"web.shop.svc.cluster.local": ["10.96.0.7"], "pods.shop.svc.cluster.local": ["10.244.0.2", "10.244.0.3"]}


def query(name: str, kind: int = A) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!HHHHHH", 77, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def status_and_addresses(reply: bytes) -> tuple[int, list[str]]:
    _, flags, _, count, _, _ = struct.unpack_from("!HHHHHH", reply)
    records = [reply[len(reply) - 16 * (index + 1) :][12:16] for index in reversed(range(count))]
    return flags & 0xF, [".".join(map(str, record)) for record in records]


def test_a_question_is_read_whatever_case_it_is_written_in() -> None:
    question = Question.read(query("Web.Shop.svc.cluster.LOCAL"))

    assert (question.message_id, question.name, question.kind) == (77, "web.shop.svc.cluster.local", A)


def test_a_service_has_its_address() -> None:
    assert status_and_addresses(answer(query("web.shop.svc.cluster.local"), SERVICES.get)) == (0, ["10.96.0.7"])


def test_a_headless_service_has_the_addresses_of_its_pods() -> None:
    reply = answer(query("pods.shop.svc.cluster.local"), SERVICES.get)

    assert status_and_addresses(reply) == (0, ["10.244.0.2", "10.244.0.3"])


def test_a_name_without_such_an_address_exists_and_is_empty() -> None:
    assert status_and_addresses(answer(query("web.shop.svc.cluster.local", AAAA), SERVICES.get)) == (0, [])


def test_an_unknown_name_does_not_exist() -> None:
    assert status_and_addresses(answer(query("example.com"), SERVICES.get)) == (3, [])


def test_a_reply_repeats_the_question_and_its_id() -> None:
    asked = query("web.shop.svc.cluster.local")
    reply = answer(asked, SERVICES.get)

    assert reply[:2] == asked[:2]
    assert reply[12 : 12 + len(asked) - 12] == asked[12:]
