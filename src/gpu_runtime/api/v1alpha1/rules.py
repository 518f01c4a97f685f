"""Rules across fields of a spec, which no schema can express. For requests and for objects written with kubectl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from gpu_runtime.api.v1alpha1.access import Access
from gpu_runtime.api.v1alpha1.gpuunit import StorageMount
from gpu_runtime.api.v1alpha1.template import Probe, RuntimeTemplate
from gpu_runtime.api.validation import FieldError

RESERVED_PATHS = ("/dev/shm",)  # noqa: S108  inside the pod


def template_errors(template: RuntimeTemplate) -> Iterator[FieldError]:
    """Errors across fields of a template whose single fields are valid."""
    first: dict[int, int] = {}
    for index, port in enumerate(template.ports):
        if port.port in first:
            message = f"duplicates template.ports[{first[port.port]}]: each number may occur once"
            yield FieldError(f"template.ports[{index}].port", message)
        first.setdefault(port.port, index)
    for index, env in enumerate(template.envs):
        if env.value and env.valueFrom is not None:
            yield FieldError(f"template.envs[{index}].valueFrom", "cannot stand beside value: set one of them")
    if template.readinessProbe is not None:
        yield from _probe_errors(template.readinessProbe, template)


def access_errors(access: Access, template: RuntimeTemplate) -> Iterator[FieldError]:
    """An error when the primary port is not a port of the template."""
    names = [port.name for port in template.ports]
    if access.primaryPort is not None and access.primaryPort not in names:
        known = f"the template has {', '.join(names)}" if names else "the template has no ports"
        yield FieldError("access.primaryPort", f"names no port: {known}")


def mount_errors(mounts: Sequence[StorageMount]) -> Iterator[FieldError]:
    """Errors for mount paths that are used twice, or that the platform reserves."""
    first: dict[str, int] = {}
    for index, mount in enumerate(mounts):
        path, field = mount.mountPath.rstrip("/"), f"storageMounts[{index}].mountPath"
        if path in first:
            yield FieldError(field, f"duplicates storageMounts[{first[path]}]: each path may occur once")
        first.setdefault(path, index)
        if any(path == taken or path.startswith(f"{taken}/") for taken in RESERVED_PATHS):
            yield FieldError(field, f"{path} is the platform's own")


class Named(Protocol):
    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Named)


def primary_port(access: Access, ports: Sequence[P]) -> P | None:
    """The port for users: the one that `access` names, else the first port, else None."""
    return next((port for port in ports if access.primaryPort in (None, port.name)), None)


def _probe_errors(probe: Probe, template: RuntimeTemplate) -> Iterator[FieldError]:
    path = "template.readinessProbe"
    actions = [name for name in ("httpGet", "tcpSocket", "exec") if getattr(probe, name) is not None]
    if len(actions) != 1:
        yield FieldError(path, f"must have exactly one of httpGet, tcpSocket and exec, not {len(actions)}")
    names = {port.name for port in template.ports}
    for name, action in (("httpGet", probe.httpGet), ("tcpSocket", probe.tcpSocket)):
        if action is not None and isinstance(action.port, str) and action.port not in names:
            yield FieldError(f"{path}.{name}.port", "names no port of the template")
