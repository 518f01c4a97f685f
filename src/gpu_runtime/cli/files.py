"""`gpu-runtime files`: what the pods of a storage run on its volume."""

from __future__ import annotations

import click


@click.group()
def files() -> None:
    """Work on the files of a volume."""
