"""Which isolation is chosen for which machine, and what is said about it."""

from __future__ import annotations

import pytest

from gpu_runtime.local.node.capabilities import Capabilities, Probed, decide
from gpu_runtime.local.node.shim import syscalls as sys_

FREE = {"mount": "", "pid": "", "uts": "", "ipc": "", "net": ""}
DENIED = dict.fromkeys(FREE, "Operation not permitted")


def chosen(capabilities: Capabilities) -> tuple[str, str, str, bool]:
    return capabilities.root, capabilities.scratch, capabilities.network, capabilities.user_namespace


CASES = {
    "root on a plain machine": (Probed(0, FREE, "", "", ""), ("overlay", "disk", "bridge", False)),
    "root in a container whose root is an overlay": (
        Probed(0, FREE, "", "Invalid argument", ""),
        ("overlay", "memory", "bridge", False),
    ),
    "root without overlay": (
        Probed(0, FREE, "", "No such device", "No such device"),
        ("bind", "disk", "bridge", False),
    ),
    "root without bridges": (Probed(0, FREE, "Operation not supported", "", ""), ("overlay", "disk", "machine", False)),
    "an ordinary user with user namespaces": (
        Probed(sys_.CLONE_NEWUSER, FREE, "only root", "", ""),
        ("overlay", "disk", "isolated", True),
    ),
    "an ordinary user without": (
        Probed(sys_.CLONE_NEWUSER, DENIED, "only root", "no", "no"),
        ("machine", "disk", "machine", False),
    ),
}


@pytest.mark.parametrize(("probed", "want"), CASES.values(), ids=CASES)
def test_the_strongest_isolation_that_the_machine_allows_is_chosen(
    probed: Probed, want: tuple[str, str, str, bool]
) -> None:
    assert chosen(decide(probed)) == want


def test_a_machine_that_allows_everything_needs_no_excuse() -> None:
    assert decide(Probed(0, FREE, "", "", "")).notes == []


@pytest.mark.parametrize("probed", [case[0] for case in list(CASES.values())[1:]], ids=list(CASES)[1:])
def test_what_is_missing_is_said_with_what_follows(probed: Probed) -> None:
    for note in decide(probed).notes:
        assert "(" in note
        assert ": " in note
    assert decide(probed).notes
