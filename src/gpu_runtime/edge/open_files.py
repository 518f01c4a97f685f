"""Room for connections within the process's limit of open files."""

from __future__ import annotations

import structlog

from gpu_runtime.kube.process import raise_open_files_limit

SPARE = 200  # files for all else: connections to Kubernetes, listening sockets, log and settings files


def room_for(connections: int) -> int:
    """`connections`, or fewer if the limit of open files allows fewer; logs a warning then."""
    limit = raise_open_files_limit()
    room = max(1, limit - SPARE)
    if room >= connections:
        return connections
    structlog.get_logger("process").warning(
        "the open-files limit is lower than the configured number of connections needs; raise `ulimit -Hn`",
        wanted=connections + SPARE,
        limit=limit,
        connections=room,
    )
    return room
