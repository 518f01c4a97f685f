"""As many open files as the connections that a process allows need."""

from __future__ import annotations

import resource

import structlog

SPARE = 200  # connections to Kubernetes, listening sockets, log and settings files


def allow_open_files(connections: int) -> int:
    """Raises the process's limit of open files and returns how many connections it has room for.

    The usual soft limit of 1024 ends in errors that no client can tell from a dead server.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    room = max(1, soft - SPARE)
    structlog.get_logger("process").warning(
        "the limit of open files is too low for the connections that the settings allow; raise `ulimit -Hn`",
        wanted=wanted,
        limit=soft,
        connections=room,
    )
    return room
