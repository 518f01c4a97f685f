"""What the platform takes for itself in the pod of a serverless worker: specs must leave it free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_runtime.api.v1alpha1.gpuunit import StorageMount
from gpu_runtime.api.v1alpha1.serverless import SOCKET_DIRECTORY, Serverless
from gpu_runtime.api.v1alpha1.template import RuntimeTemplate
from gpu_runtime.api.validation import FieldError

HEALTH_PORT = 20881
HANDLER_FOLDER = "/etc/gpu-runtime/handler"
FOLDERS = (SOCKET_DIRECTORY, "/etc/gpu-runtime")


def serverless_errors(
    serverless: Serverless, image: str | None, template: RuntimeTemplate, mounts: Sequence[StorageMount] = ()
) -> Iterator[FieldError]:
    """Errors of a unit that is to be a worker, across fields that are valid one by one."""
    if not serverless.enabled:
        return
    if serverless.requestID is None:
        yield FieldError("serverless.requestID", "is required when enabled: the name of the function")
    if serverless.handler is None and image is None:
        yield FieldError("image", "is required for a worker without handler: which image runs the framework?")
    if serverless.handler is not None and image is not None:
        yield FieldError("image", "cannot stand beside serverless.handler, which runs on the platform's own image")
    if serverless.handler is not None and (template.command or template.args):
        yield FieldError("template", "command and args cannot stand beside serverless.handler, which is what runs")
    for index, port in enumerate(template.ports):
        if port.port == HEALTH_PORT:
            yield FieldError(f"template.ports[{index}].port", f"{HEALTH_PORT} is the platform's own in a worker")
    for index, mount in enumerate(mounts):
        if folder := _taken(mount.mountPath):
            yield FieldError(f"storageMounts[{index}].mountPath", f"{folder} is the platform's own in a worker")


def _taken(path: str) -> str:
    """The platform's folder that a mount would hide or lie in."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for folder in FOLDERS:
        theirs = folder.strip("/").split("/")
        shorter = min(len(parts), len(theirs))
        if parts[:shorter] == theirs[:shorter]:
            return folder
    return ""
