"""Protobuf documents, which kubectl's create subcommands send."""

from __future__ import annotations

import pytest

from gpu_runtime.local.apiserver.builtin import named_node
from gpu_runtime.local.apiserver.protobuf import NotProtobuf, decode_document


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def envelope(kind: str, raw: bytes, api_version: str = "v1") -> bytes:
    meta = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, meta) + field(2, raw)


def test_a_config_map_is_read() -> None:
    entry = field(1, b"color") + field(2, b"blue")
    raw = field(1, field(1, b"name")) + field(2, entry)
    found = decode_document(envelope("ConfigMap", raw), named_node)
    assert found == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "name"}, "data": {"color": "blue"}}


def test_an_embedded_struct_is_flattened() -> None:
    claim = field(2, field(10, field(1, b"data")))
    volume = field(1, b"v") + claim
    found = decode_document(envelope("Pod", field(2, field(1, volume))), named_node)
    assert found["spec"]["volumes"] == [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"k8s\x00\xff", envelope("Nonsense", b""), envelope("ConfigMap", b"\x12\xff")]
)
def test_what_is_no_document_is_refused(body: bytes) -> None:
    with pytest.raises(NotProtobuf):
        decode_document(body, named_node)
