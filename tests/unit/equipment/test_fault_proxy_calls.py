"""Requests are understood as the API server understands them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equipment.fault_proxy import Call, Match, calls, creates, gets, reads, watches, writes
from equipment.fault_proxy.call import parse_call
from equipment.fault_proxy.rule import Rule

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a core collection": ("GET", "/api/v1/pods", {"verb": "list", "resource": "pods"}),
    "an object in a namespace": (
        "GET", "/api/v1/namespaces/n/pods/p",
        {"verb": "get", "namespace": "n", "resource": "pods", "name": "p"},
    ),
    "an object of a group": (
        "PUT", "/apis/apps/v1/namespaces/n/deployments/d",
        {"verb": "update", "group": "apps", "version": "v1", "qualified_resource": "deployments.apps"},
    ),
    "a subresource": (
        "PATCH", "/apis/apps/v1/namespaces/n/deployments/d/status",
        {"verb": "patch", "subresource": "status", "name": "d"},
    ),
    "a namespace itself": ("DELETE", "/api/v1/namespaces/n", {"verb": "delete", "resource": "namespaces", "name": "n"}),
    "a namespace's finalize": (
        "PUT", "/api/v1/namespaces/n/finalize",
        {"resource": "namespaces", "name": "n", "namespace": "", "subresource": "finalize"},
    ),
    "a collection deleted": ("DELETE", "/api/v1/namespaces/n/pods", {"verb": "deletecollection"}),
    "a watch": ("GET", "/api/v1/pods?watch=true&resourceVersion=7", {"verb": "watch", "streaming": True}),
    "a watch of one object": ("GET", "/api/v1/namespaces/n/pods/p?watch=1", {"verb": "watch", "name": "p"}),
    "a watch in the old form": ("GET", "/api/v1/watch/namespaces/n/pods", {"verb": "watch", "resource": "pods"}),
    "no watch": ("GET", "/api/v1/pods?watch=false", {"verb": "list", "streaming": False}),
    "a followed log": ("GET", "/api/v1/namespaces/n/pods/p/log?follow=true", {"verb": "get", "streaming": True}),
    "an escaped name": ("GET", "/api/v1/namespaces/n/configmaps/a%2Fb", {"name": "a/b"}),
    "discovery": ("GET", "/apis/apps/v1", {"resource": "", "mutating": False}),
    "a dry run": ("POST", "/api/v1/namespaces/n/pods?dryRun=All", {"dry_run": True, "mutating": True}),
    "a review": ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"mutating": False}),
}  # fmt: skip


@pytest.mark.parametrize(("method", "path", "want"), CASES.values(), ids=CASES)
def test_a_request_is_parsed(method: str, path: str, want: dict[str, Any]) -> None:
    call = parse_call(method, path, {})
    assert {name: getattr(call, name) for name in want} == want


def test_a_create_is_named_by_its_body_and_a_body_that_is_no_json_is_left_alone() -> None:
    path, kind = "/api/v1/namespaces/n/pods", {"Content-Type": "application/json", "User-Agent": "me"}
    call = parse_call("POST", path, kind, json.dumps({"metadata": {"name": "p"}}).encode())
    assert (call.name, call.user_agent, str(call)) == ("p", "me", "create pods n/p")
    binary = parse_call("POST", path, {"Content-Type": "application/vnd.kubernetes.protobuf"}, b"k8s\x00\xff")
    assert (binary.name, binary.body) == ("", None)
    applied = parse_call("PATCH", path + "/p", {"Content-Type": "application/apply-patch+yaml"}, b"a: {b: 1}")
    assert applied.body == {"a": {"b": 1}}


STATUS = parse_call("PATCH", "/apis/apps/v1/namespaces/n/deployments/d/status", {"User-Agent": "manager/1"})

MATCHES: dict[str, tuple[Match, bool]] = {
    "any write": (writes(), True),
    "plain resource": (writes("deployments"), True),
    "qualified resource": (writes("deployments.apps"), True),
    "other group": (writes("deployments.extensions"), False),
    "other verb": (creates("deployments"), False),
    "read": (reads(), False),
    "name": (writes().named("d").in_namespace("n"), True),
    "other name": (writes().named("e"), False),
    "other namespace": (writes().in_namespace("m"), False),
    "subresource": (writes().subresource("status"), True),
    "the object itself": (writes().subresource(""), False),
    "client": (writes().by("manager"), True),
    "other client": (writes().by("kubectl"), False),
    "where": (calls().where(lambda call: call.version == "v1"), True),
    "or": (gets() | writes(), True),
    "and": (gets() & writes(), False),
    "not": (~writes(), False),
}


@pytest.mark.parametrize(("match", "want"), MATCHES.values(), ids=MATCHES)
def test_a_match_is_about_the_calls_it_says(match: Match, want: bool) -> None:
    assert match(STATUS) is want


def test_a_match_prints_as_it_was_asked() -> None:
    assert str(watches("pods").in_namespace("n") & ~writes()) == "watch of pods and in n and not (write)"


def hits(rule: Rule, *names: str) -> list[bool]:
    return [rule.hits(Call("GET", "/", "get", resource="pods", name=name)) for name in names]


def test_a_rule_without_numbers_hits_all() -> None:
    assert hits(Rule(gets()), *"aaa") == [True, True, True]


def test_a_rule_hits_the_first_so_many() -> None:
    assert hits(Rule(gets(), times=2), *"aaaa") == [True, True, False, False]


def test_a_rule_hits_the_nth_once_or_from_there_on() -> None:
    assert hits(Rule(gets(), nth=2), *"aaaa") == [False, True, False, False]
    assert hits(Rule(gets(), nth=2, times=2), *"aaaa") == [False, True, True, False]


def test_a_rule_counts_only_what_matches() -> None:
    assert hits(Rule(gets().named("b"), nth=2), *"abab") == [False, False, False, True]
