"""Commands that start the programs of `shim/`, in a Python without site packages, environment or user settings."""

from __future__ import annotations

import sys
from pathlib import Path

import gpu_runtime

_SOURCE = str(Path(gpu_runtime.__file__).parent.parent)


def command(module: str, *arguments: str) -> list[str]:
    """The argument list that runs `main()` of a module of ours."""
    start = f"import sys; sys.path.insert(0, {_SOURCE!r}); from {module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", start, *arguments]


def needed_directories() -> list[str]:
    """The directories of the interpreter and of this package. Pods see them even inside hidden paths."""
    return sorted({str(Path(path).resolve()) for path in (sys.prefix, sys.base_prefix, _SOURCE)})
