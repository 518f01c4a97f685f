"""Startup, readiness and liveness probes of running containers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import aiohttp

from gpu_runtime.local.kinds.container import Container, HttpGet, Probe

Kind = Literal["startup", "readiness", "liveness"]
Execute = Callable[[list[str], float], Awaitable[tuple[int | None, str]]]
# A server needs a moment to listen. Until a probe has succeeded once, and for no longer than one period, it is tried in
# quick succession and its failures are not counted: nobody waits ten seconds for what took fifty milliseconds.
RAMP_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.0)


@dataclass(frozen=True)
class Outcome:
    """The result of one try; `error` when the try could not be made."""

    success: bool
    output: str = ""
    error: bool = False


@dataclass
class Verdicts:
    """The probe results of one run. A probe that it lacks has passed; `failed` is the probe that must end the run."""

    started: bool = True
    readiness: bool = True
    failed: Kind | None = None

    @classmethod
    def awaited(cls, container: Container) -> Verdicts:
        """The results before the first try: not started if it has a startup probe, not ready if a readiness probe."""
        return cls(started=container.startupProbe is None, readiness=container.readinessProbe is None)

    @property
    def ready(self) -> bool:
        return self.started and self.readiness

    def take(self, kind: Kind, value: bool) -> None:
        if kind == "readiness":
            self.readiness = value
        elif not value:
            self.failed = self.failed or kind
        elif kind == "startup":
            self.started = True


def named_port(container: Container, port: int | str) -> int:
    """The number of a port; ValueError for a name that the container does not have."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for each in container.ports:
        if each.name == port:
            return each.containerPort
    raise ValueError(f"couldn't find port: {port}")


def probed_ports(container: Container) -> list[int]:
    """Ports that probes ask for, so that they are reachable even where only declared ones are."""
    found = []
    for probe in (container.startupProbe, container.readinessProbe, container.livenessProbe):
        action = (probe.httpGet or probe.tcpSocket) if probe else None
        if action:
            try:
                found.append(named_port(container, action.port))
            except ValueError:
                continue
    return found


class Prober:
    """Tries one probe for ever and calls `changed(kind, verdict)` when the verdict changes."""

    def __init__(self, container: Container, kind: Kind, probe: Probe, address: str, execute: Execute) -> None:
        self._container, self._kind, self._probe = container, kind, probe
        self._address, self._execute = address, execute

    async def try_once(self, session: aiohttp.ClientSession) -> Outcome:
        """One try within the probe's own timeout."""
        probe = self._probe
        seconds = float(probe.timeoutSeconds)
        try:
            if probe.exec:
                code, output = await self._execute(probe.exec.command, seconds)
                if code is None:
                    return Outcome(
                        False,
                        f"command timed out: {' '.join(probe.exec.command)!r} timed out after {probe.timeoutSeconds}s",
                    )
                return Outcome(code == 0, output)
            if probe.httpGet:
                return await self._http(session, probe.httpGet, seconds)
            if probe.tcpSocket:
                host = probe.tcpSocket.host or self._address
                return await _tcp(host, named_port(self._container, probe.tcpSocket.port), seconds)
        except ValueError as error:
            return Outcome(False, str(error), error=True)
        return Outcome(False, "missing probe handler", error=True)

    async def _http(self, session: aiohttp.ClientSession, action: HttpGet, seconds: float) -> Outcome:
        port = named_port(self._container, action.port)
        path = action.path if action.path.startswith("/") else f"/{action.path}"
        url = f"{action.scheme.lower()}://{action.host or self._address}:{port}{path}"
        headers = {header.name: header.value for header in action.httpHeaders}
        headers.setdefault("User-Agent", "kube-probe/1.35")
        headers.setdefault("Accept", "*/*")
        try:
            async with session.get(
                url, headers=headers, timeout=aiohttp.ClientTimeout(total=seconds), allow_redirects=True, ssl=False
            ) as answer:
                if 200 <= answer.status < 400:
                    return Outcome(True)
                return Outcome(False, f"HTTP probe failed with statuscode: {answer.status}")
        except TimeoutError:
            return Outcome(
                False, f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
            )
        except (aiohttp.ClientConnectorError, OSError) as error:
            return Outcome(False, f'Get "{url}": dial tcp {self._address}:{port}: {_cause(error)}')
        except aiohttp.ClientError as error:
            return Outcome(False, f'Get "{url}": {error}')

    async def run(
        self,
        started_at: float,
        session: aiohttp.ClientSession,
        changed: Callable[[Kind, bool], None],
        failed: Callable[[Kind, Outcome], None],
    ) -> None:
        """Probes until cancelled (a startup probe: until it has succeeded)."""
        verdict = Verdict(self._probe, self._kind)
        delay = started_at + self._probe.initialDelaySeconds - time.time()
        if delay > 0:
            await asyncio.sleep(delay)
        ramp = iter(RAMP_SECONDS)
        until = time.monotonic() + self._probe.periodSeconds
        while True:
            outcome = await self.try_once(session)
            early = not verdict.succeeded and not outcome.success and self._kind != "liveness"
            wait = next(ramp, None) if early and time.monotonic() < until else None
            if wait is None:
                if not outcome.success:
                    failed(self._kind, outcome)
                if not outcome.error and verdict.take(outcome.success):
                    changed(self._kind, verdict.value)
                if self._kind == "startup" and verdict.value:
                    return
            await asyncio.sleep(self._probe.periodSeconds if wait is None else wait)


@dataclass
class Verdict:
    """Counts successes and failures in a row; the value changes at the thresholds."""

    probe: Probe
    kind: Kind
    value: bool = field(init=False)
    succeeded: bool = False
    _row: int = 0
    _last: bool | None = None

    def __post_init__(self) -> None:
        self.value = self.kind == "liveness"

    def take(self, success: bool) -> bool:
        """Whether the value is to be announced: it changed, or a failure threshold was reached."""
        self._row = self._row + 1 if success == self._last else 1
        self._last = success
        if self._row < (self.probe.successThreshold if success else self.probe.failureThreshold):
            return False
        self.succeeded = self.succeeded or success
        changed = self.value != success or (self.kind == "startup" and not success)
        self.value = success
        return changed


async def _tcp(host: str, port: int, seconds: float) -> Outcome:
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Outcome(False, f"dial tcp {host}:{port}: i/o timeout")
    except OSError as error:
        return Outcome(False, f"dial tcp {host}:{port}: {_cause(error)}")
    writer.close()
    return Outcome(True)


def _cause(error: BaseException) -> str:
    known = {
        111: "connect: connection refused",
        113: "connect: no route to host",
        101: "connect: network is unreachable",
    }
    number = getattr(error, "errno", None) or getattr(getattr(error, "os_error", None), "errno", None)
    return known.get(number or 0, str(error))
