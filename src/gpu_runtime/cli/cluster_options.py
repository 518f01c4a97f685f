"""Options of the embedded cluster, for `up` and `local-cluster`."""

from __future__ import annotations

import click

gpus_option = click.option(
    "--gpus",
    type=click.IntRange(0, 1024),
    help="How many of this machine's GPUs to use, or to simulate where it has none; without it all, or 8.",
)
show_option = click.option(
    "--show",
    "shown",
    multiple=True,
    metavar="PATH[:rw]",
    help="A folder of a home that pods see at its own place, read-only without :rw; homes are hidden otherwise.",
)
