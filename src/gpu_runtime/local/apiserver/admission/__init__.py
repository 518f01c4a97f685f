"""Checks and changes that depend on other objects than the one that is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.store import Store


@dataclass
class Attempt:
    """One write that is about to happen."""

    kind: Kind
    operation: str
    namespace: str
    name: str
    subresource: str = ""
    new: Object | None = None
    old: Object | None = None
    dry_run: bool = False
    beforehand: list[Callable[[], None]] = field(default_factory=list)
    """Writes that precede the object's own write, such as a quota's new usage. They run when every check has passed."""


class Plugin:
    """One admission rule. A plugin overrides only the steps that it needs."""

    def admit(self, attempt: Attempt, store: Store) -> None:
        """May change the new object or refuse the write. Runs before validation."""

    def check(self, attempt: Attempt, store: Store) -> None:
        """May only refuse the write. Runs after validation."""


class Chain:
    """Runs every plugin in order."""

    def __init__(self, plugins: list[Plugin]) -> None:
        self._plugins = plugins

    def admit(self, attempt: Attempt, store: Store) -> None:
        for plugin in self._plugins:
            plugin.admit(attempt, store)

    def check(self, attempt: Attempt, store: Store) -> None:
        for plugin in self._plugins:
            plugin.check(attempt, store)
