"""Settings of each process: one strict YAML file, every key also as an environment variable.

The variable of a key is `GPU_RUNTIME_`, the process, then the path of the key, in upper case with `_` between words:
`leaderElection.enabled` of the controller-manager is `GPU_RUNTIME_CONTROLLER_MANAGER_LEADER_ELECTION_ENABLED`. It wins
over the file. Values that are no text are written as YAML (`8`, `true`, `[a, b]`, `{a: 1}`). A key or variable that is
not known is an error that names it. Secrets never stand here: a setting names the file that holds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from gpu_runtime.config.controller_manager import ControllerManagerSettings, SpecSettings, StockSettings, UnitSettings
from gpu_runtime.config.loading import load_as, show
from gpu_runtime.config.proxy import ProxySettings
from gpu_runtime.config.runtime_api import ApiLimits, OperationSettings, RuntimeApiSettings
from gpu_runtime.config.shared import Health, Log
from gpu_runtime.errors import ConfigError

__all__ = [
    "PROCESSES",
    "ApiLimits",
    "ConfigError",
    "ControllerManagerSettings",
    "Health",
    "Log",
    "OperationSettings",
    "ProxySettings",
    "RuntimeApiSettings",
    "SpecSettings",
    "StockSettings",
    "UnitSettings",
    "load",
    "show",
]

S = TypeVar("S", bound=Struct)

PROCESSES: dict[str, type[Struct]] = {
    "controller-manager": ControllerManagerSettings,
    "proxy": ProxySettings,
    "runtime-api": RuntimeApiSettings,
}


def load(settings: type[S], path: Path | None, env: Mapping[str, str]) -> S:
    """The settings in force: defaults, then the file, then the environment; ConfigError says all that is wrong."""
    process = next(name for name, each in PROCESSES.items() if each is settings)
    return load_as(process, settings, path, env)
