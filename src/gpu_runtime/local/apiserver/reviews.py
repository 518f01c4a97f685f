"""Reviews for `kubectl auth can-i` and `kubectl auth whoami`: the only user is the administrator."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gpu_runtime.local.apiserver.calls import json_response
from gpu_runtime.local.apiserver.documents import PROTOBUF, check_type, parse
from gpu_runtime.local.apiserver.environment import Environment
from gpu_runtime.local.apiserver.errors import Status, bad_request, method_not_allowed
from gpu_runtime.local.apiserver.targets import Target

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
KINDS = {
    (AUTHORIZATION, "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    (AUTHORIZATION, "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
    (AUTHENTICATION, "selfsubjectreviews"): "SelfSubjectReview",
}
ADMIN = {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]}
EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def is_review(target: Target) -> bool:
    known = (target.group, target.plural) in KINDS and target.version == "v1"
    return known and not (target.namespace or target.name or target.subresource)


async def review(request: web.BaseRequest, target: Target, environment: Environment) -> web.Response:
    """Answers with the review and its status; stores nothing."""
    if request.method != "POST":
        raise method_not_allowed()
    kind, api_version = KINDS[(target.group, target.plural)], f"{target.group}/v1"
    spec = _spec(await request.read(), request.headers.get("Content-Type", ""), kind, api_version)
    found: dict[str, Any] = {"kind": kind, "apiVersion": api_version, "metadata": {}}
    if kind == "SelfSubjectReview":
        found["metadata"] = {"creationTimestamp": environment.timestamp()}
        found["status"] = {"userInfo": ADMIN}
    elif kind == "SelfSubjectRulesReview":
        found |= {"spec": {}, "status": EVERYTHING}
    else:
        found |= {"spec": spec or {}, "status": {"allowed": True}}
    return json_response(found, 201)


def _spec(body: bytes, content_type: str, kind: str, api_version: str) -> dict[str, Any] | None:
    """The checked spec of the review; None for protobuf, which kubectl sends: the answer does not depend on it."""
    if content_type.startswith(PROTOBUF):
        return None
    spec: dict[str, Any] = check_type(parse(body, content_type), kind, api_version, custom=False).get("spec") or {}
    if kind == "SelfSubjectRulesReview" and not spec.get("namespace"):
        raise bad_request("no namespace on request")
    asked = bool(spec.get("resourceAttributes")) + bool(spec.get("nonResourceAttributes"))
    if kind == "SelfSubjectAccessReview" and asked != 1:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        field = "spec.resourceAttributes"
        cause = {"reason": "FieldValueInvalid", "message": f"Invalid value: null: {text}", "field": field}
        message = f'.{AUTHORIZATION} "" is invalid: {field}: Invalid value: null: {text}'
        raise Status(422, "Invalid", message, {"group": AUTHORIZATION, "causes": [cause]})
    return spec
