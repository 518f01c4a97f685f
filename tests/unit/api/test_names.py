"""Names are legal where they are used, and two things never get one name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.api.meta.names import (
    clamp,
    derived,
    is_dns1035_label,
    is_dns1123_label,
    is_dns1123_subdomain,
    joined,
    slug,
)

labels = st.from_regex(r"[a-z]([-a-z0-9]{0,80}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("name", "label", "service", "subdomain"),
    [
        ("demo", True, True, True),
        ("a", True, True, True),
        ("1st", True, False, True),
        ("a" * 63, True, True, True),
        ("a" * 64, False, False, True),
        ("g1.1", False, False, True),
        ("a" * 254, False, False, False),
        ("", False, False, False),
        ("Demo", False, False, False),
        ("de_mo", False, False, False),
        ("-demo", False, False, False),
        ("demo-", False, False, False),
        ("a..b", False, False, False),
        ("demo\n", False, False, False),
        ("démo", False, False, False),
    ],
)
def test_names_are_judged_as_the_api_server_does(name: str, label: bool, service: bool, subdomain: bool) -> None:
    assert (is_dns1123_label(name), is_dns1035_label(name), is_dns1123_subdomain(name)) == (label, service, subdomain)


@given(labels)
def test_a_name_that_fits_is_kept_and_one_that_does_not_stays_legal(name: str) -> None:
    short = clamp(name, 40)
    assert short == name if len(name) <= 40 else len(short) <= 40
    assert is_dns1035_label(short)


@given(st.lists(labels, min_size=2, max_size=20, unique=True), st.integers(min_value=20, max_value=63))
def test_two_long_names_with_one_beginning_never_meet(tails: list[str], limit: int) -> None:
    names = ["long-beginning-" * 5 + tail for tail in tails]
    assert len({clamp(name, limit) for name in names}) == len(names)


def test_the_name_of_a_child_is_readable_and_fits() -> None:
    assert joined("pool", "g1-demo") == "pool-g1-demo"
    assert len(joined("pool", "x" * 63)) == 63
    assert joined("pool", "x" * 62 + "a") != joined("pool", "x" * 62 + "b")


def test_a_derived_name_is_the_same_for_ever() -> None:
    assert derived("op", "CreateGPUUnit", "unit-demo-001") == "op-3gtswfiuj3zpu2ysscw2n6zryi"


@given(st.lists(st.tuples(st.text(), st.text()), min_size=2, max_size=20, unique=True))
def test_different_keys_have_different_derived_names(keys: list[tuple[str, str]]) -> None:
    names = {derived("op", *key) for key in keys}
    assert len(names) == len(keys)
    assert all(is_dns1035_label(name) for name in names)


def test_a_long_prefix_leaves_the_derived_part_whole() -> None:
    one, other = derived("p" * 80, "a"), derived("p" * 80, "b")
    assert one != other
    assert is_dns1035_label(one)


@given(st.text())
def test_a_slug_of_anything_is_a_legal_label(text: str) -> None:
    assert is_dns1035_label(slug(text))


def test_a_slug_keeps_what_it_can() -> None:
    assert [slug(text) for text in ("g1.1", "GPU_A100", "1g.5gb", "模型")] == ["g1-1", "gpu-a100", "x-1g-5gb", "x"]
    assert re.fullmatch(r"[a-z0-9-]{1,63}", slug("x" * 100))
