"""One line for each thing that takes a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Say = Callable[[str], None]

REMIND_EVERY = 15.0


@contextmanager
def timed(what: str, say: Say) -> Iterator[None]:
    """Say what was done and how long it took, once it is done."""
    started = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - started:.1f} s")


@contextmanager
def reminders(what: str, say: Say) -> Iterator[None]:
    """Say every few seconds that something long is still going on."""
    started = time.monotonic()
    finished = threading.Event()

    def remind() -> None:
        while not finished.wait(REMIND_EVERY):
            say(f"  still {what}: {time.monotonic() - started:.0f} s")

    thread = threading.Thread(target=remind, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
