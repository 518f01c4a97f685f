"""How the programs of `shim/` are started: an interpreter without site packages, environment or user settings."""

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
    """Where the interpreter and this package lie: pods see them even where they are hidden from pods otherwise."""
    return sorted({str(Path(path).resolve()) for path in (sys.prefix, sys.base_prefix, _SOURCE)})
