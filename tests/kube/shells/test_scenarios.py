"""What a person does in a container, on a complete real Kubernetes."""

from __future__ import annotations

import pytest

from local.shells import forwarding as forwarding  # noqa: PLC0414  it adds its scenarios
from local.shells.person import Person
from local.shells.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_person_in_a_container(name: str, person: Person) -> None:
    SCENARIOS[name](person)
