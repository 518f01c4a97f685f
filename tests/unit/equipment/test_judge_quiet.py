"""I5: every mutating request counts, except Leases."""

from __future__ import annotations

from dataclasses import replace

from equipment.fault_proxy import Exchange, writes
from equipment.fault_proxy.call import Call, parse_call
from equipment.judge import quiet

LEASE = parse_call("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", {})
READ = parse_call("GET", "/api/v1/pods", {})
REVIEW = parse_call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {})
STATUS = parse_call("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/status", {"User-Agent": "manager"})


def history(*calls: Call) -> list[Exchange]:
    return [Exchange(number, call, sent=True, status=200) for number, call in enumerate(calls, 1)]


def test_reads_reviews_and_leases_are_quiet() -> None:
    assert quiet(history(LEASE, READ, REVIEW)) == []


def test_a_write_is_not_quiet_and_names_who_did_it() -> None:
    assert quiet(history(LEASE, STATUS)) == ["#2 patch deployments.apps/status a/b by manager, answered 200"]


def test_a_refused_and_a_dry_write_count_too() -> None:
    refused = Exchange(1, STATUS, sent=True, status=409)
    dry = Exchange(2, replace(STATUS, query={"dryRun": "All"}), sent=True, status=200)
    assert len(quiet([refused, dry])) == 2


def test_what_is_allowed_can_be_said() -> None:
    assert quiet(history(STATUS), but=writes("deployments").subresource("status")) == []
