"""Rules across fields of a spec, which no schema can express. For requests and for objects written with kubectl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.api.v1alpha1.access import Access
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorageSpec, Prepare
from gpu_runtime.api.v1alpha1.gpuunit import StorageMount
from gpu_runtime.api.v1alpha1.serverless import CREDENTIALS_PREFIX
from gpu_runtime.api.v1alpha1.template import Probe, RuntimeTemplate
from gpu_runtime.api.validation import FieldError

# The kernel's own trees in the container: nothing is mounted there or below. The platform itself mounts /dev/shm.
RESERVED_TREES = ("/proc", "/dev", "/sys")
# Programs need the files of the image here. A folder below it may be mounted.
RESERVED_FOLDERS = ("/etc",)


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
        if env.valueFrom is not None and env.valueFrom.secretKeyRef.name.startswith(f"{CREDENTIALS_PREFIX}-"):
            message = "names a Secret of the platform: programs of users must not read it"
            yield FieldError(f"template.envs[{index}].valueFrom.secretKeyRef.name", message)
    if template.readinessProbe is not None:
        yield from _probe_errors(template.readinessProbe, template)


def access_errors(access: Access, template: RuntimeTemplate) -> Iterator[FieldError]:
    """An error when the primary port is not a port of the template."""
    names = [port.name for port in template.ports]
    if access.primaryPort is not None and access.primaryPort not in names:
        known = f"the template has {', '.join(names)}" if names else "the template has no ports"
        yield FieldError("access.primaryPort", f"names no port: {known}")


def mount_errors(mounts: Sequence[StorageMount]) -> Iterator[FieldError]:
    """Errors for storages that are mounted twice, and for paths that are reserved, used twice or inside each other."""
    names: dict[str, int] = {}
    paths = [_normalised(mount.mountPath) for mount in mounts]
    for index, (mount, path) in enumerate(zip(mounts, paths, strict=True)):
        if mount.name in names:
            message = f"duplicates storageMounts[{names[mount.name]}]: each storage may be mounted once"
            yield FieldError(f"storageMounts[{index}].name", message)
        names.setdefault(mount.name, index)
        if problem := _path_error(mount.mountPath, path) or _overlap(index, paths):
            yield FieldError(f"storageMounts[{index}].mountPath", problem)


def _normalised(path: str) -> str:
    """The path without empty segments and `.`: /a//b/./ is /a/b."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _path_error(written: str, path: str) -> str:
    if not written.startswith("/"):
        return "must be an absolute path: begin it with '/'"
    if ".." in path.split("/"):
        return "must not contain '..': write the path without it"
    if path == "/":
        return "must not be '/': choose a folder below it"
    if path in RESERVED_FOLDERS or any(_is_inside(path, tree) or path == tree for tree in RESERVED_TREES):
        return f"{path} is the platform's own"
    return ""


def _overlap(index: int, paths: Sequence[str]) -> str:
    """Why the path at `index` cannot be mounted beside the others. Of two nested paths, the inner one is at fault."""
    path = paths[index]
    if path in paths[:index]:
        return f"duplicates storageMounts[{paths.index(path)}]: each path may occur once"
    outer = next((other for other, folder in enumerate(paths) if folder != "/" and _is_inside(path, folder)), None)
    if outer is None:
        return ""
    return f"{path} is inside {paths[outer]} of storageMounts[{outer}]: mounts must not be nested"


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def storage_errors(spec: GPUStorageSpec, name: str) -> Iterator[FieldError]:
    """Errors of a GPUStorage with this name that its schema does not find."""
    yield from size_errors(spec.size)
    if spec.prepare is not None:
        yield from prepare_errors(spec.prepare, name)


def size_errors(size: str) -> Iterator[FieldError]:
    """An error when a volume cannot have this size."""
    try:
        amount = Quantity.parse(size, negative=False)
    except ValueError as error:
        yield FieldError("size", str(error))
        return
    if not amount:
        yield FieldError("size", "must be more than 0, such as 20Gi")
    elif amount != Quantity.of(amount.value):
        yield FieldError("size", f"{size} is not a whole number of bytes: write a size such as 500Mi or 20Gi")


def prepare_errors(prepare: Prepare, name: str) -> Iterator[FieldError]:
    """Errors across the fields of `prepare`, in the storage with this name."""
    words = bool(prepare.command or prepare.args)
    if prepare.fromImage is not None and prepare.fromStorageName is not None:
        yield FieldError("prepare", "must have fromImage or fromStorageName, not both")
    elif prepare.fromImage is None and prepare.fromStorageName is None:
        needs = "command and args need fromImage" if words else "must have fromImage or fromStorageName"
        yield FieldError("prepare", needs)
    elif prepare.fromStorageName is not None and words:
        yield FieldError("prepare", "command and args need fromImage: a copy of another storage runs no command")
    elif prepare.fromImage is not None and not words:
        yield FieldError("prepare", "fromImage needs command or args: what should it run to fill the volume?")
    if prepare.fromStorageName == name:
        yield FieldError("prepare.fromStorageName", "names this storage itself: name another one")


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
