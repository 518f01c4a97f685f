"""Rules of a spec that its schema cannot hold. Requests are checked at the edge; a hand-written object, here."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnitSpec
from gpu_runtime.api.v1alpha1.template import Port, Probe, RuntimeTemplate

RESERVED_PATHS = ("/dev/shm",)  # noqa: S108  inside the pod


def template_problems(template: RuntimeTemplate) -> Iterator[str]:
    """What is wrong with a template, each with its field."""
    seen: dict[int, str] = {}
    for index, port in enumerate(template.ports):
        first = seen.setdefault(port.port, port.name)
        if first != port.name:
            yield f"spec.template.ports[{index}].port: {port.port} is the port of {first} already"
    for index, env in enumerate(template.envs):
        if env.value and env.valueFrom is not None:
            yield f"spec.template.envs[{index}]: set value or valueFrom, not both"
    if template.readinessProbe is not None:
        yield from _probe_problems(template.readinessProbe, template)


def mount_problems(spec: GPUUnitSpec) -> Iterator[str]:
    """What is wrong with the mounts of a unit."""
    seen: dict[str, str] = {}
    for index, mount in enumerate(spec.storageMounts):
        path = mount.mountPath.rstrip("/")
        first = seen.setdefault(path, mount.name)
        if first != mount.name:
            yield f"spec.storageMounts[{index}].mountPath: {path} is where {first} is mounted already"
        if any(path == taken or path.startswith(f"{taken}/") for taken in RESERVED_PATHS):
            yield f"spec.storageMounts[{index}].mountPath: {path} is the platform's own"


def primary_port(spec: GPUUnitSpec) -> Port | None:
    """The port that users reach; ValueError when the spec names one that the template has not."""
    wanted, ports = spec.access.primaryPort, spec.template.ports
    if wanted is None:
        return ports[0] if ports else None
    for port in ports:
        if port.name == wanted:
            return port
    names = ", ".join(port.name for port in ports) or "none"
    raise ValueError(f"spec.access.primaryPort: {wanted} is no port of the template; it has {names}")


def _probe_problems(probe: Probe, template: RuntimeTemplate) -> Iterator[str]:
    actions = [action for action in (probe.httpGet, probe.tcpSocket, probe.exec) if action is not None]
    if len(actions) != 1:
        yield "spec.template.readinessProbe: set exactly one of httpGet, tcpSocket and exec"
    for action in (probe.httpGet, probe.tcpSocket):
        if action is not None and isinstance(action.port, str) and action.port not in {p.name for p in template.ports}:
            yield f"spec.template.readinessProbe: {action.port} is no port of the template"
