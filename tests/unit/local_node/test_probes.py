"""When a probe's verdict turns."""

from __future__ import annotations

import pytest

from gpu_runtime.local.kinds.container import Container, ContainerPort, HttpGet, Probe, TcpSocket
from gpu_runtime.local.node.agent.probes import Kind, Verdict, Verdicts, named_port, probed_ports

CASES: dict[str, tuple[Kind, int, int, str, str]] = {
    # kind, success threshold, failure threshold, tries (+ and -), announcements (. is none)
    "readiness begins false and turns at once": ("readiness", 1, 3, "-+", ".+"),
    "readiness is lost at the third failure in a row": ("readiness", 1, 3, "+--+---", "+.....-"),
    "readiness needs its successes in a row": ("readiness", 2, 1, "+-++", "...+"),
    "liveness begins true and dies at its threshold": ("liveness", 1, 2, "-+--", "...-"),
    "startup that never comes is announced": ("startup", 1, 3, "---", "..-"),
    "startup that comes late is well": ("startup", 1, 3, "--+", "..+"),
}
KINDS: tuple[Kind, ...] = ("readiness", "startup", "liveness")


@pytest.mark.parametrize(("kind", "success", "failure", "tries", "want"), CASES.values(), ids=CASES)
def test_a_verdict_turns_at_its_thresholds(kind: Kind, success: int, failure: int, tries: str, want: str) -> None:
    verdict = Verdict(Probe(successThreshold=success, failureThreshold=failure), kind)
    said = ""
    for each in tries:
        changed = verdict.take(each == "+")
        said += ("+" if verdict.value else "-") if changed else "."
    assert said == want


def test_a_container_without_probes_is_started_and_ready() -> None:
    assert Verdicts.awaited(Container(name="c")).ready


def test_a_container_is_ready_only_once_it_has_started() -> None:
    verdicts = Verdicts.awaited(Container(name="c", startupProbe=Probe(), readinessProbe=Probe()))
    seen: list[tuple[bool, Kind | None]] = []
    for kind in KINDS:
        verdicts.take(kind, value=len(seen) < 2)
        seen.append((verdicts.ready, verdicts.failed))
    assert seen == [(False, None), (True, None), (True, "liveness")]


def test_ports_are_meant_by_number_or_by_name() -> None:
    container = Container(
        name="c",
        ports=[ContainerPort(containerPort=8080, name="http")],
        readinessProbe=Probe(httpGet=HttpGet(port="http")),
        livenessProbe=Probe(tcpSocket=TcpSocket(port=9)),
        startupProbe=Probe(tcpSocket=TcpSocket(port="unknown")),
    )
    assert named_port(container, "80") == 80
    assert probed_ports(container) == [8080, 9]
    with pytest.raises(ValueError, match="couldn't find port: unknown"):
        named_port(container, "unknown")
