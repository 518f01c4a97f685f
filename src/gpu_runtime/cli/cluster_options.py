"""Options of the embedded cluster, for `up` and `local-cluster`."""

from __future__ import annotations

import click

gpus_option = click.option(
    "--gpus",
    type=click.IntRange(0, 1024),
    help="Number of GPUs to use, or to simulate if the machine has none. Default: all, or 8 simulated.",
)
show_option = click.option(
    "--show",
    "shown",
    multiple=True,
    metavar="PATH[:rw]",
    help="A folder under a home directory that pods can see at the same path, read-only unless :rw is added. All other "
    "folders under home directories are hidden from pods.",
)
