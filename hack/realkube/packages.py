"""The Debian packages that a node is made of."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from realkube.errors import RealKubeError
from realkube.progress import Say, timed

# Each package with a file that tells whether it is there, however it came.
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "iproute2": "ip",
    "iptables": "iptables-save",
    "busybox-static": "/bin/busybox",
}


def missing() -> list[str]:
    """The packages that are not installed."""
    return [name for name, file in PACKAGES.items() if not (shutil.which(file) or Path(file).is_file())]


def ensure(say: Say) -> None:
    """Install what is missing."""
    wanted = missing()
    if not wanted:
        return
    if shutil.which("apt-get") is None:
        raise RealKubeError(f"no apt-get on this machine: install what these Debian packages have: {', '.join(wanted)}")
    with timed(f"installed {', '.join(wanted)}", say):
        done = apt_get("install", *wanted)
        if done.returncode != 0:  # the package lists of a fresh machine are empty or old
            apt_get("update")
            done = apt_get("install", *wanted)
        if done.returncode != 0 or missing():
            errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
            raise RealKubeError(f"apt-get install {' '.join(wanted)} failed: {(errors or ['see above'])[0]}")


def apt_get(action: str, *packages: str) -> subprocess.CompletedProcess[str]:
    options = ["--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
    return subprocess.run(
        ["apt-get", action, *options, *packages],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        check=False,
    )
