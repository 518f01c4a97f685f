"""`python -m realkube build|up|down`: the programs of Kubernetes, and a complete real one on this machine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from realkube import binaries, cluster, supervisor
from realkube.errors import RealKubeError
from realkube.site import Site


def say(line: str) -> None:
    print(line, flush=True)


def main(arguments: list[str]) -> int:
    """Run one command; what a person can act on is one line and status 1."""
    try:
        match arguments:
            case ["build"]:
                binaries.ensure(*binaries.PROGRAMS, say=say)
                binaries.kwok_stages(say)
            case ["up"]:
                cluster.up(Site.from_environment(), say)
            case ["down"]:
                cluster.down(Site.from_environment(), say)
            case ["supervise"]:
                supervisor.supervise(Site.from_environment())
            case ["provision", kubeconfig, folder]:
                # Loaded here: the other commands must not wait for the project's own code.
                from realkube import provisioner  # noqa: PLC0415

                asyncio.run(provisioner.serve(Path(kubeconfig), Path(folder)))
            case _:
                print("usage: python -m realkube build|up|down", file=sys.stderr)
                return 2
    except RealKubeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


sys.exit(main(sys.argv[1:]))
