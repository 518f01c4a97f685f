"""Makes the credentials of a broker that runs elsewhere: `python -m gpu_runtime.serverless.credentials FOLDER`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gpu_runtime.errors import ConfigError
from gpu_runtime.serverless.credentials.files import CredentialFiles


def main(arguments: list[str]) -> str | int:
    """The exit status, or what is wrong."""
    if len(arguments) != 1:
        return "usage: python -m gpu_runtime.serverless.credentials FOLDER"
    files = CredentialFiles(Path(arguments[0]))
    try:
        files.write(issued=int(time.time()))
    except ConfigError as error:
        return str(error)
    except OSError as error:
        return f"{files.folder} cannot be used: {error.strerror}"
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
