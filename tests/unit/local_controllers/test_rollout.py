"""How many pods each ReplicaSet shall have next."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.local.controllers.deployment.rollout import (
    Bounds,
    Size,
    bounds,
    first_size,
    recreate,
    resized,
    rolling_update,
)
from unit.local_controllers.objects import a_deployment


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "want"),
    [
        (1, "25%", "25%", (2, 1)),
        (2, "25%", "25%", (3, 2)),
        (10, "25%", "25%", (13, 8)),
        (4, 0, 0, (4, 3)),
        (4, 2, 1, (6, 3)),
        (3, "100%", "0%", (6, 3)),
        (2, 1, 5, (3, 0)),
        (0, 1, 0, (1, 0)),
    ],
)
def test_surge_is_rounded_up_and_unavailability_down(
    replicas: int, surge: int | str, unavailable: int | str, want: tuple[int, int]
) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    limits = bounds(a_deployment(replicas, strategy=rolling))
    assert (limits.most, limits.least) == want


def test_recreate_allows_no_surge() -> None:
    limits = bounds(a_deployment(3, strategy={"type": "Recreate"}))
    assert (limits.most, limits.least) == (3, 3)


@dataclass(frozen=True)
class Step:
    limits: Bounds
    present: Size
    olds: list[Size] = field(default_factory=list)
    want: dict[str, int] = field(default_factory=dict)


def size(name: str, replicas: int, available: int | None = None) -> Size:
    return Size(name, replicas, replicas if available is None else available)


ROLLING = {
    "a finished rollout needs nothing": Step(Bounds(3, 1, 1), size("new", 3), [size("old", 0)]),
    "the present set grows into the surge first": Step(Bounds(3, 1, 0), size("new", 0), [size("old", 3)], {"new": 1}),
    "nothing old goes before something new is available": Step(Bounds(3, 1, 0), size("new", 1, 0), [size("old", 3)]),
    "an old pod goes for each new one that is available": Step(
        Bounds(3, 1, 0), size("new", 1), [size("old", 3)], {"old": 2}
    ),
    "unavailable old pods go first": Step(
        Bounds(4, 1, 1), size("new", 1, 1), [size("sick", 2, 0), size("old", 2)], {"sick": 0}
    ),
    "a present set that is too large shrinks": Step(Bounds(2, 1, 0), size("new", 5), [], {"new": 2}),
    "without surge the old set shrinks by what may be missing": Step(
        Bounds(4, 0, 1), size("new", 0), [size("old", 4)], {"old": 3}
    ),
    "the oldest set shrinks first": Step(
        Bounds(4, 0, 2), size("new", 0), [size("oldest", 2), size("older", 2)], {"oldest": 0}
    ),
}


@pytest.mark.parametrize("step", ROLLING.values(), ids=ROLLING)
def test_a_rolling_update_takes_one_step(step: Step) -> None:
    assert rolling_update(step.limits, step.present, step.olds) == step.want


@given(
    replicas=st.integers(0, 12),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
    old=st.lists(st.integers(0, 6), max_size=3),
    data=st.data(),
)
def test_a_rollout_ends_and_keeps_its_bounds_all_the_while(
    replicas: int, surge: int, unavailable: int, old: list[int], data: st.DataObject
) -> None:
    limits = Bounds(replicas, surge, min(unavailable or (0 if surge else 1), replicas))
    if not surge and not limits.unavailable:
        limits = Bounds(replicas, 1, 0)
    sizes = {"new": 0, **{f"old{number}": count for number, count in enumerate(old)}}
    available = dict(sizes)
    began_with_enough = sum(available.values()) >= limits.least
    began_below_most = sum(sizes.values()) <= limits.most
    for _ in range(400):
        olds = [size(name, sizes[name], available[name]) for name in sizes if name != "new"]
        step = rolling_update(limits, size("new", sizes["new"], available["new"]), olds)
        sizes |= step
        available = {name: min(count, sizes[name]) for name, count in available.items()}
        if began_with_enough:
            assert sum(available.values()) >= limits.least
        if began_below_most:
            assert sum(sizes.values()) <= limits.most
        late = [name for name in sizes if available[name] < sizes[name]]
        if not step and not late:
            break
        if late:
            available[data.draw(st.sampled_from(late))] += 1
    assert sizes == {"new": replicas, **{f"old{number}": 0 for number in range(len(old))}}


def test_recreate_empties_the_old_sets_and_waits_for_their_last_pod() -> None:
    limits, new = Bounds(2, 0, 0), size("new", 0)
    assert recreate(limits, new, [size("old", 2)], old_pods_left=True) == {"old": 0}
    assert recreate(limits, new, [size("old", 0)], old_pods_left=True) == {}
    assert recreate(limits, new, [size("old", 0)], old_pods_left=False) == {"new": 2}


def test_a_set_is_created_as_large_as_the_surge_allows() -> None:
    assert first_size(Bounds(3, 1, 0), [], recreate=False) == 3
    assert first_size(Bounds(3, 1, 0), [size("old", 3)], recreate=False) == 1
    assert first_size(Bounds(3, 0, 1), [size("old", 3)], recreate=False) == 0


def test_a_new_size_goes_to_the_only_active_set() -> None:
    assert resized(Bounds(5, 1, 0), size("new", 2), [size("old", 0)]) == {"new": 5}
    assert resized(Bounds(0, 1, 0), size("new", 2), [size("old", 0)]) == {"new": 0}


def test_a_new_size_in_the_middle_of_a_rollout_is_left_to_its_next_steps() -> None:
    assert resized(Bounds(20, 5, 0), size("new", 5, 2), [size("old", 8)]) == {}
    assert rolling_update(Bounds(20, 5, 0), size("new", 5, 2), [size("old", 8)]) == {"new": 17}


def test_a_complete_set_takes_over_when_the_size_changes() -> None:
    new = Size("new", 3, 3, desired=3)
    assert resized(Bounds(3, 1, 0), new, [size("old", 1)]) == {"old": 0}
