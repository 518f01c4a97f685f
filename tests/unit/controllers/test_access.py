"""The address that users are given."""

from __future__ import annotations

import pytest

from equipment.builders import a_stock_unit, a_unit
from equipment.builders.product import UnitBuilder
from gpu_runtime.config import ControllerManagerSettings, UnitSettings
from gpu_runtime.controllers.gpuunit.resources.service import access_url

PROXY = ControllerManagerSettings(units=UnitSettings(accessURL="http://localhost:8090/units/{namespace}/{name}/"))
UNIT = a_unit("u", "team-a").port(8080).port(9000, "grpc")

CASES: dict[str, tuple[UnitBuilder, ControllerManagerSettings, str]] = {
    "the first port": (UNIT, ControllerManagerSettings(), "http://u.team-a.svc.cluster.local:8080"),
    "the primary port, in its scheme": (
        UNIT.spec(access={"primaryPort": "grpc", "scheme": "grpc"}),
        ControllerManagerSettings(),
        "grpc://u.team-a.svc.cluster.local:9000",
    ),
    "through the proxy": (UNIT, PROXY, "http://localhost:8090/units/team-a/u/"),
    "a unit that does not listen": (a_unit("u"), PROXY, ""),
    "stock": (a_stock_unit("u").port(8080), PROXY, ""),
}


@pytest.mark.parametrize(("unit", "settings", "want"), CASES.values(), ids=CASES)
def test_the_address_of(unit: UnitBuilder, settings: ControllerManagerSettings, want: str) -> None:
    assert access_url(unit.object(), settings) == want
