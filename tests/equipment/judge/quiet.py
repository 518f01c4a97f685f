"""I5, quiet: at steady state nothing is written."""

from __future__ import annotations

from collections.abc import Iterable

from equipment.fault_proxy import Exchange, Match, writes

LEASES = writes("leases.coordination.k8s.io")


def quiet(exchanges: Iterable[Exchange], *, but: Match = LEASES) -> list[str]:
    """Violations of I5: every mutating request in a window of the history, except those that are always allowed.

    A request counts even if it changed nothing: a PUT without a difference costs the server as much as one with.
    """
    return [
        f"#{exchange.sequence} {exchange.call} by {exchange.call.user_agent or 'unknown'}, answered {exchange.status}"
        for exchange in exchanges
        if exchange.call.mutating and not but(exchange.call)
    ]
