"""Images: the machine itself is the image, so every image exists except those that are configured as missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gpu_runtime.local.node.agent.backoff import Backoff

ERROR_SECONDS = 1.0  # a failed pull is ErrImagePull for this long, then ImagePullBackOff


@dataclass(frozen=True)
class Refused:
    """Why a container has no image at the moment: a waiting state, and whether a pull was tried just now."""

    reason: str
    message: str
    tried: bool
    retry_after: float


class Images:
    """Answers like a kubelet whose registry lacks the images that match a pattern."""

    def __init__(self, missing: Iterable[str] = (), backoff: Backoff | None = None) -> None:
        self._missing = list(missing)
        self._backoff = backoff or Backoff()
        self._failed: dict[str, float] = {}

    def refusal(self, pod_uid: str, image: str, now: float) -> Refused | None:
        """Why the image cannot be used; None when it can."""
        if not any(fnmatchcase(image, pattern) for pattern in self._missing):
            return None
        key = f"{pod_uid}_{image}"
        failure = (
            f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {image}: not found'
        )
        failed = self._failed.get(key)
        left = self._backoff.left(key, failed, now) if failed is not None else 0.0
        if failed is not None and left > 0 and now - failed < ERROR_SECONDS:
            return Refused("ErrImagePull", failure, tried=False, retry_after=failed + ERROR_SECONDS - now)
        if left > 0:
            message = f'Back-off pulling image "{image}": ErrImagePull: {failure}'
            return Refused("ImagePullBackOff", message, tried=False, retry_after=left)
        self._backoff.tried(key, self._failed.get(key, now), now)
        self._failed[key] = now
        return Refused("ErrImagePull", failure, tried=True, retry_after=ERROR_SECONDS)

    def forget(self, pod_uid: str) -> None:
        self._backoff.forget(f"{pod_uid}_")
        for key in [key for key in self._failed if key.startswith(f"{pod_uid}_")]:
            del self._failed[key]
