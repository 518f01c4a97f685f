"""The judge: pure functions over what was seen, each for one invariant; a list of violations, empty when it holds.

    seen = timeline(history.exchanges, before=listed_at_start, after=listed_at_end)
    assert one_effect(seen, replies) == []                     # I1: one operationID, one effect
    assert conservation(seen, seeded=20) == []                 # I2: no stock lost, none with two owners
    assert made_once(seen, {"seed-1": 20}) == []               # and of a batch each number is one unit, ever
    assert premature_workloads(seen) == []                     # and nothing runs before its stock is gone
    assert orphans(listed_at_end) == []                        # I3: every child has its owner, every claim its claimant
    assert data_kept(seen) == []                               # I7: no data goes while somebody wants or mounts it
    assert one_writer(seen) == []                              # I8: one unit at a time mounts a claim
    assert same_end(listed_after_clean_run, listed_at_end) == []   # I6: faults leave no mark
    assert quiet(proxy.calls(since=mark)) == []                # I5: nothing is written at steady state

`history.exchanges` knows only what passed its proxies. Where others write too (kubectl, garbage collection, a process
without a proxy), give `events=` of a Witness, which watches the server directly.
"""

from equipment.judge.conservation import StockCount, conservation, count_stock
from equipment.judge.data import data_kept, mounted, one_writer
from equipment.judge.effects import Reply, one_effect
from equipment.judge.ends import same_end
from equipment.judge.orphans import orphans
from equipment.judge.quiet import quiet
from equipment.judge.seeding import made_once, unlisted
from equipment.judge.timeline import Life, Timeline, timeline
from equipment.judge.witness import Witness, list_objects
from equipment.judge.workloads import premature_workloads

__all__ = [
    "Life",
    "Reply",
    "StockCount",
    "Timeline",
    "Witness",
    "conservation",
    "count_stock",
    "data_kept",
    "list_objects",
    "made_once",
    "mounted",
    "one_effect",
    "one_writer",
    "orphans",
    "premature_workloads",
    "quiet",
    "same_end",
    "timeline",
    "unlisted",
]
