from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gpu_runtime.cmd.up.layout import Installation, Layout, Ports

NOW = Installation(
    ports=Ports(
        kubernetes=32232,
        http={"runtime-api": 8080, "proxy": 8090},
        health={"controller-manager": 25723, "runtime-api": 20799, "proxy": 26120},
    ),
    kubeconfig="/data/kubeconfig",
)
WITHOUT_BROKER = {
    "ports": {
        "kubernetes": 32232,
        "http": {"runtime-api": 8080, "proxy": 8090},
        "health": {"controller-manager": 25723, "runtime-api": 20799, "proxy": 26120},
    },
    "kubeconfig": "/data/kubeconfig",
}
EARLIER = {
    "ports": {
        "api": 8080,
        "proxy": 8090,
        "kubernetes": 32232,
        "controllerManagerHealth": 25723,
        "runtimeApiHealth": 20799,
        "proxyHealth": 26120,
    },
    "kubeconfig": "/data/kubeconfig",
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.at(tmp_path)
    layout.supervised.make()
    return layout


def test_what_was_remembered_is_read_again(layout: Layout) -> None:
    layout.remember(NOW)
    assert layout.remembered() == NOW


@pytest.mark.parametrize("written", [EARLIER, WITHOUT_BROKER])
def test_an_installation_of_an_earlier_version_keeps_its_ports(layout: Layout, written: object) -> None:
    (layout.supervised.root / "installation.json").write_bytes(msgspec.json.encode(written))
    assert layout.remembered() == NOW


@pytest.mark.parametrize("written", [b"", b"{", b"[]", b'{"ports": {}}'])
def test_a_file_that_cannot_be_read_says_nothing(layout: Layout, written: bytes) -> None:
    (layout.supervised.root / "installation.json").write_bytes(written)
    assert layout.remembered() is None
