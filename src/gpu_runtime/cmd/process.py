"""The declaration of one process of the product. `cmd/processes.py` holds the declarations.

The command, settings, role in `up`, permissions, manifests and docs of a process are derived from its declaration.
`gpu-runtime --help` loads every declaration, so a declaration names code as `module:attribute` and does not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from gpu_runtime.api.rbac import Permissions, Rule, leader_election
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE

Settings = Mapping[str, object]
Urls = Mapping[str, str]
"""The URL of each process that serves HTTP, by the name of the process.

`broker` is the URL of the broker of `up` inside pods of its cluster. It is empty if `up` runs none, or no cluster.
"""


@dataclass(frozen=True)
class InUp:
    """How `gpu-runtime up` runs a process. `up` itself sets ports, addresses and leader election."""

    after: tuple[str, ...] = ()
    """Processes that must be ready before this one starts. One that needs Kubernetes also waits for the cluster."""
    port: int | None = None
    """The offset of its HTTP port from `--port`. None: any free port."""
    variable: str = ""
    """The environment variable that `gpu-runtime env` sets to its URL."""
    pages: Mapping[str, str] = field(default_factory=dict)
    """Paths of its URL that `up` prints when every process is ready, by title."""
    settings: Callable[[Urls], Settings] = lambda _: {}
    """Settings that only `up` knows. They override the user's settings."""


@dataclass(frozen=True)
class InCluster:
    """The Deployment of a process in config/manager. The generator sets ports, addresses and host names."""

    replicas: int = 2
    settings: Settings = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Names of Secrets by the folder under /etc/gpu-runtime where the container reads them."""


@dataclass(frozen=True)
class Process:
    """The declaration of one process. `cmd/processes.py` has all declarations."""

    name: str
    summary: str
    """The line about the command in `gpu-runtime --help`."""
    main: str
    """`module:function` of `async def main(settings, process: ProcessContext) -> None`."""
    settings: str
    """`module:class` of a Struct that has `log` and `health`; also `httpAddr` and `allowedHosts` with `http`,
    `leaderElection` with `lease`, and `nats` if the process uses the broker."""
    local_settings: str = ""
    """`module:attribute` of the settings that differ from their defaults on one machine."""
    http: bool = False
    """Whether the process serves HTTP. It does so on another port than its health port."""
    kubernetes: bool = True
    """Whether the process talks to a cluster: its command takes `--kubeconfig`, and its Pods have a token."""
    lease: str = ""
    """The Lease in the install namespace by which replicas elect a leader. Empty: no leader election."""
    rules: tuple[Rule, ...] = ()
    """Its permissions in every namespace."""
    namespaced_rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    """Its additional permissions, by namespace."""
    up: InUp | None = None
    """None: `up` does not run it."""
    cluster: InCluster | None = None
    """None: config/manager has no Deployment of it."""

    @property
    def permissions(self) -> Permissions:
        namespaces = dict(self.namespaced_rules)
        if self.lease:
            namespaces[SYSTEM_NAMESPACE] = (*namespaces.get(SYSTEM_NAMESPACE, ()), *leader_election(self.lease))
        return Permissions(self.name, self.rules, namespaces)

    @property
    def broker(self) -> bool:
        """Whether the process uses the broker."""
        return "nats" in self._settings_fields

    @property
    def signs_workers(self) -> bool:
        """Whether the process makes the credentials by which workers use the broker."""
        return "signingKeyFile" in self._settings_fields

    @property
    def results(self) -> bool:
        """Whether the process uses the database of results."""
        return "results" in self._settings_fields

    @property
    def _settings_fields(self) -> tuple[str, ...]:
        fields: tuple[str, ...] = _attribute(self.settings).__struct_fields__
        return fields

    def load_settings(self, path: Path | None, env: Mapping[str, str]) -> Any:
        """The effective settings: defaults, then the file, then the environment. ConfigError lists every error."""
        return import_module("gpu_runtime.config").load(self.name, _attribute(self.settings), path, env)

    def settings_on_one_machine(self) -> Settings:
        found: Settings = _attribute(self.local_settings) if self.local_settings else {}
        return found

    def load_main(self) -> Any:
        return _attribute(self.main)


def _attribute(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
