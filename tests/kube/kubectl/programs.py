"""The kubectls that there are: that of the real server's version, and that of the machine, if it has one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from realkube import binaries

SAME = f"of version {binaries.KUBERNETES}"


def _installed() -> dict[str, str]:
    """The machine's own kubectl under the version that it tells; a test exists only for what is found."""
    found = shutil.which("kubectl")
    if found is None:
        return {}
    told = subprocess.run([found, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True)
    return {f"installed, {json.loads(told.stdout)['clientVersion']['gitVersion']}": found}


INSTALLED = _installed()
PROGRAMS = [SAME, *INSTALLED]


def binary(program: str) -> Path:
    """The file of one of PROGRAMS; the first use of ours may build it."""
    return (
        Path(INSTALLED[program]) if program in INSTALLED else binaries.ensure("kubectl", say=lambda _: None)["kubectl"]
    )
