"""What the server does from time to time is done again after a failure, and its end is seen."""

from __future__ import annotations

from pathlib import Path

from equipment.waiting import eventually
from gpu_runtime.local.apiserver.chores import Chores
from gpu_runtime.local.apiserver.journal import Journal
from gpu_runtime.local.apiserver.store import Store


async def test_a_chore_that_failed_is_done_again_and_seen_until_then() -> None:
    runs: list[dict[str, str]] = []
    chores = Chores()

    def chore() -> None:
        runs.append(chores.problems())
        if len(runs) == 1:
            raise OverflowError("date value out of range")

    chores.start("tidying", 0.001, chore)
    await eventually(lambda: len(runs) >= 3, what="three runs")
    assert "date value out of range" in runs[1]["tidying"]
    assert runs[2] == {}
    await chores.stop()


async def test_the_end_of_a_chore_is_seen_and_takes_no_other_with_it() -> None:
    class Ended(BaseException):
        """Not an Exception, so that no guard holds it."""

    def leave() -> None:
        raise Ended

    ran: list[int] = []
    chores = Chores()
    chores.start("leaving", 0.001, leave)
    chores.start("staying", 0.001, lambda: ran.append(1))
    await eventually(lambda: chores.problems() == {"leaving": "ended, and is not done any more"}, what="its end")
    seen = len(ran)
    await eventually(lambda: len(ran) > seen, what="the other to go on")
    await chores.stop()


async def test_the_end_of_the_journals_writer_is_seen(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    store = Store(journal)
    assert store.problems() == {}
    store.close()
    assert list(store.problems()) == ["journal"]
