"""`python -m benchmarks [NAME ...]`: runs the named benchmarks, or all."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]) if not module.name.startswith("_"))


def main(asked: list[str]) -> int:
    if unknown := [name for name in asked if name not in names()]:
        print(f"no benchmark {', '.join(unknown)}; there is: {', '.join(names())}", file=sys.stderr)
        return 2
    for name in asked or names():
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
