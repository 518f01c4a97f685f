"""What the agent remembers of a pod between two syncs. A restart loses it, as in a kubelet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gpu_runtime.local.kinds.pods import Waiting
from gpu_runtime.local.node.agent.probes import Verdicts
from gpu_runtime.local.node.agent.status import Failure

RunKey = tuple[str, int]


@dataclass
class PodMemory:
    """Reasons to wait, verdicts of probes, and the events that were already recorded."""

    waiting: dict[str, Waiting] = field(default_factory=dict)
    verdicts: dict[RunKey, Verdicts] = field(default_factory=dict)
    probing: dict[RunKey, list[asyncio.Task[None]]] = field(default_factory=dict)
    announced: set[tuple[str, ...]] = field(default_factory=set)
    failure: Failure | None = None

    def now_waits(self, container: str, reason: str, message: str) -> bool:
        """Records why a container waits. Returns whether the reason is new."""
        waiting = Waiting(reason=reason, message=message)
        if self.waiting.get(container) == waiting:
            return False
        self.waiting[container] = waiting
        return True

    def first_time(self, *what: str) -> bool:
        """Whether this is the first call with these arguments."""
        if what in self.announced:
            return False
        self.announced.add(what)
        return True

    def stop_probing(self, keep: RunKey | None = None, name: str | None = None) -> None:
        """Ends the probes of a container's runs but `keep`; of all containers without a name."""
        for key in [key for key in self.probing if key != keep and name in (None, key[0])]:
            for task in self.probing.pop(key):
                task.cancel()
            self.verdicts.pop(key, None)
