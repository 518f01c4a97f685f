"""Settings of each process: one strict YAML file. An environment variable can set every key, too.

The variable of a key is `GPU_RUNTIME_`, the process, then the path of the key, in upper case with `_` between words:
`leaderElection.enabled` of the controller-manager is `GPU_RUNTIME_CONTROLLER_MANAGER_LEADER_ELECTION_ENABLED`. A
variable overrides the file. Values other than strings are written as YAML (`8`, `true`, `[a, b]`, `{a: 1}`). An unknown
key or variable is an error that names it. Settings never contain secrets: a setting names the file with the secret.
"""

from __future__ import annotations

from gpu_runtime.config.controller_manager import ControllerManagerSettings, SpecSettings, StockSettings, UnitSettings
from gpu_runtime.config.loading import load, show
from gpu_runtime.config.proxy import ProxySettings
from gpu_runtime.config.result_store import ResultStoreSettings
from gpu_runtime.config.results import ResultsSettings
from gpu_runtime.config.runtime_api import ApiLimits, OperationSettings, RuntimeApiSettings
from gpu_runtime.config.shared import Health, Log
from gpu_runtime.config.worker import WorkerSettings
from gpu_runtime.errors import ConfigError

__all__ = [
    "ApiLimits",
    "ConfigError",
    "ControllerManagerSettings",
    "Health",
    "Log",
    "OperationSettings",
    "ProxySettings",
    "ResultStoreSettings",
    "ResultsSettings",
    "RuntimeApiSettings",
    "SpecSettings",
    "StockSettings",
    "UnitSettings",
    "WorkerSettings",
    "load",
    "show",
]
