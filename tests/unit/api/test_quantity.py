"""Quantities mean, compare and print as in Kubernetes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runtime.api.meta.quantity import Format, Quantity

LARGEST = (2**63 - 1) * 10**9  # in nanos: the largest amount that every notation can hold

CANONICAL = {
    "0": "0",
    "-0": "0",
    "0.000": "0",
    "0Gi": "0",
    "1": "1",
    "1.": "1",
    "+1": "1",
    "007": "7",
    ".5": "500m",
    "1.5": "1500m",
    "1.500": "1500m",
    "500m": "500m",
    "1000m": "1",
    "1200m": "1200m",
    "100000": "100k",
    "1e3": "1e3",
    "1E3": "1e3",
    "1000e0": "1e3",
    "15e2": "1500",
    "1e-3": "1e-3",
    "1e-4": "100e-6",
    "1E": "1E",
    "16Gi": "16Gi",
    "1024Mi": "1Gi",
    "1000Ki": "1000Ki",
    "1.5Gi": "1536Mi",
    "0.5Ki": "512",
    "1.3Ki": "1331200m",
    "0.1Gi": "107374182400m",
    "0.0001Ki": "102400u",
    "-2Ki": "-2Ki",
    "-1.5": "-1500m",
    # Less than a nano is rounded up: who asks for a little gets at least that.
    "0.1n": "1n",
    "1.1n": "2n",
    "-0.1n": "-1n",
    "1e-400": "1e-9",
    # Binary amounts are capped at the largest 64-bit number.
    "8Ei": "9223372036854775807",
    "-9Ei": "-9223372036854775807",
    # Past E there is no suffix left.
    "5000E": "5000E",
    "1e21": "1e21",
}

NOT_QUANTITIES = (
    *("", " ", "not-a-quantity", "Gi", ".", "+", "-", "e3", "1 Gi", " 1Gi", "1Gi ", "1Gi\n", "--1", "1.5.5", "1,5"),
    *("1K", "1ki", "1GI", "1Zi", "1e", "1e+", "1e1.5", "1Ee3", "1k3", "1Gi5", "0x10", "NaN", "inf", "１", "1_000"),
)


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_a_quantity_prints_in_canonical_form(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize("text", NOT_QUANTITIES)
def test_what_is_no_quantity_is_refused_with_an_example_of_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a quantity.*16Gi"):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["1e30", "1e1000000000", "9" * 31])
def test_an_amount_that_no_resource_has_is_refused_quickly(text: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        Quantity.parse(text)


def test_a_very_long_text_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match=r"'1{40}\.\.\.' is not a quantity"):
        Quantity.parse("1" * 1000)


def test_a_negative_amount_is_refused_where_it_makes_no_sense() -> None:
    assert Quantity.parse("-1").value == -1
    with pytest.raises(ValueError, match="'-1' is negative"):
        Quantity.parse("-1", negative=False)
    assert not Quantity.parse("-0", negative=False)


def test_equal_amounts_are_one_amount_however_they_are_written() -> None:
    same = [Quantity.parse(text) for text in ("1Gi", "1024Mi", "1073741824", "1073741824000m", "1073741824e0")]
    assert len(set(same)) == 1
    assert all(one == other for one in same for other in same)
    assert Quantity.parse("1G") < Quantity.parse("1Gi") <= Quantity.parse("1024Mi")
    assert Quantity.parse("1") != "1"


def test_the_value_in_whole_units_is_rounded_away_from_zero() -> None:
    values = {text: Quantity.parse(text).value for text in ("1", "1.1", "1n", "-1.1", "2Ki")}
    assert values == {"1": 1, "1.1": 2, "1n": 1, "-1.1": -2, "2Ki": 2048}


def test_a_sum_keeps_the_suffixes_of_its_first_part_unless_that_is_zero() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1M")) == "1074741824"
    assert str(Quantity.parse("1Gi") + Quantity.parse("1024Mi")) == "2Gi"
    assert str(Quantity.of(0) + Quantity.parse("2Gi")) == "2Gi"
    assert str(Quantity.parse("1Gi") - Quantity.parse("512Mi")) == "512Mi"
    assert str(Quantity.parse("500m") * 3) == "1500m"
    assert str(-Quantity.parse("5Gi")) == "-5Gi"


amounts = st.integers(min_value=-LARGEST, max_value=LARGEST)
quantities = st.builds(Quantity, amounts, st.sampled_from(Format))
digits = st.text("0123456789", min_size=1, max_size=8)
numbers = st.one_of(digits, st.builds("{}.{}".format, digits, digits), st.builds(".{}".format, digits))
suffixes = st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "e3", "E-6", "e+2", "e0"])
texts = st.builds("{}{}{}".format, st.sampled_from(["", "+", "-"]), numbers, suffixes)


@given(quantities)
def test_the_canonical_form_means_the_same_amount(quantity: Quantity) -> None:
    assert Quantity.parse(str(quantity)) == quantity


@given(texts)
def test_the_canonical_form_of_a_canonical_form_is_itself(text: str) -> None:
    once = str(Quantity.parse(text))
    assert str(Quantity.parse(once)) == once


@given(quantities, quantities)
def test_arithmetic_is_exact(one: Quantity, other: Quantity) -> None:
    assert (one + other) - other == one
    assert (one + other).nanos == one.nanos + other.nanos
    assert one - one == Quantity.of(0)
    assert (one < other) == (one.nanos < other.nanos)
    assert (one == other) == (hash(one) == hash(other) and not one < other and not other < one)


@given(numbers)
def test_suffixes_scale_by_their_powers(number: str) -> None:
    plain = Quantity.parse(number).nanos
    assert Quantity.parse(number + "k").nanos == plain * 1000
    assert Quantity.parse(number + "Ki").nanos == plain * 1024
    assert Quantity.parse(number + "e6").nanos == plain * 10**6
    assert Quantity.parse(number + "m") * 1000 >= Quantity.parse(number)
