"""The end of a container's log."""

from __future__ import annotations

from gpu_runtime.api.meta.object import Key
from gpu_runtime.kube.client import Client

LONGEST_LINE = 4096


async def last_lines(client: Client, pod: Key, container: str, lines: int) -> list[str]:
    """The last lines that the container has written, oldest first. Whole lines only: one is being written."""
    body = await client.request(
        "GET",
        f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log",
        parameters={"container": container, "tailLines": str(lines), "limitBytes": str(lines * LONGEST_LINE)},
        subject=f"read the log of pod {pod}",
    )
    return body.decode(errors="replace").split("\n")[:-1]
