"""Becomes the container's program: identity, limits, capabilities and the search for the executable."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from typing import NoReturn

from gpu_runtime.local.node.shim import seccomp
from gpu_runtime.local.node.shim import syscalls as sys_
from gpu_runtime.local.node.shim.shapes import Container


class CannotExecute(Exception):
    """The command cannot be started; the message is in the words of a container runtime."""


def find_executable(name: str, search: str) -> str:
    """The path that `name` stands for, looked up on `search` unless it has a slash."""
    if "/" in name:
        try:
            about = os.stat(name)
        except OSError as error:
            raise CannotExecute(f'exec: "{name}": stat {name}: {_reason(error)}') from error
        if stat.S_ISDIR(about.st_mode):
            raise CannotExecute(f'exec: "{name}": is a directory')
        if not os.access(name, os.X_OK):
            raise CannotExecute(f'exec: "{name}": permission denied')
        return name
    for folder in search.split(":"):
        path = os.path.join(folder or ".", name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise CannotExecute(f'exec: "{name}": executable file not found in $PATH')


def _reason(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else str(error)).lower()


def join_cgroups(paths: list[str], pid: int) -> None:
    """Puts a process, and so all it starts, under the container's limits."""
    for path in paths:
        with open(path, "w") as procs:
            procs.write(str(pid))


def become(container: Container, command: list[str]) -> NoReturn:
    """Executes `command` as the container's user, with the container's limits and no way to gain privileges."""
    _limits(container)
    privileged = os.geteuid() == 0
    if privileged:
        sys_.drop_capabilities(frozenset(container["capabilities"]))
        _identity(container)
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    try:
        os.chdir(container["workingDir"])
        os.getcwd()  # fails for a directory outside the container's root, which a link in /proc may lead to
    except OSError as error:
        raise CannotExecute(
            f"chdir to cwd ({container['workingDir']!r}) set in the spec failed: {_reason(error)}"
        ) from error
    # All of them: the agent ignores SIGHUP and SIGINT when it was started with nohup or in the background of a shell.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    path = find_executable(command[0], container["env"].get("PATH", ""))
    if container["seccomp"]:
        seccomp.confine()
    try:
        os.execve(path, command, container["env"])  # noqa: S606
    except OSError as error:
        raise CannotExecute(f"exec {path}: {_reason(error)}") from error


def _limits(container: Container) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = min(container["openFiles"], most) if most != resource.RLIM_INFINITY else container["openFiles"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if container["processes"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (container["processes"], container["processes"]))
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("500")  # when the machine runs out of memory, pods go before the cluster
    except OSError:
        return


def _identity(container: Container) -> None:
    try:
        os.setgroups(container["groups"])
    except OSError as error:
        if error.errno != errno.EPERM or container["groups"]:  # a user namespace of an ordinary user denies setgroups
            raise CannotExecute(f"setgroups: {_reason(error)}") from error
    try:
        os.setresgid(container["group"], container["group"], container["group"])
        os.setresuid(container["user"], container["user"], container["user"])
    except OSError as error:
        raise CannotExecute(
            f"cannot run as user {container['user']}, group {container['group']}: {_reason(error)}"
        ) from error
