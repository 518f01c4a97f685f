"""Runs a function from a source file: `python -m gpu_runtime.serverless.framework --source FILE --entry NAME`."""

from __future__ import annotations

import argparse
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from gpu_runtime.serverless.framework.running import run


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpu_runtime.serverless.framework", description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="Python file with the function")
    parser.add_argument("--entry", default="main", help="name of the function in it (default: main)")
    parser.add_argument("--socket", help="unix socket to serve on")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(options.source.resolve().parent))
    run(load(options.source, options.entry), socket_path=options.socket)
    return 0


def load(source: Path, entry: str) -> Any:
    """The function of that name. An error in the source is raised as it is: its trace names the user's own line."""
    spec = spec_from_file_location("handler", source)
    if spec is None or spec.loader is None or not source.is_file():
        sys.exit(f"Error: {source} is not a Python file")
    module = module_from_spec(spec)
    sys.modules["handler"] = module
    spec.loader.exec_module(module)
    found = getattr(module, entry, None)
    if not callable(found):
        sys.exit(f"Error: {source.name} has no function named {entry}")
    return found


if __name__ == "__main__":
    sys.exit(main())
