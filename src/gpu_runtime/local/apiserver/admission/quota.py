"""ResourceQuota: a write that would use more than is left is refused, in the real server's words."""

from __future__ import annotations

from gpu_runtime.local.apiserver.admission import Attempt, Plugin
from gpu_runtime.local.apiserver.errors import forbidden
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.store import Store
from gpu_runtime.local.quantities import nanos, spelled
from gpu_runtime.local.usage import Usage, in_scope, missing_compute, usage_of


class ResourceQuotas(Plugin):
    """Compares a write with the quota's status and adds what it admits to that status, as the real server does."""

    def check(self, attempt: Attempt, store: Store) -> None:
        if not attempt.kind.namespaced or attempt.new is None or attempt.subresource:
            return
        quotas = [record.object() for record in store.all_current("resourcequotas", f"{attempt.namespace}/")]
        if not quotas or attempt.kind.resource == "resourcequotas":
            return
        asked = _more(attempt)
        for quota in sorted(quotas, key=lambda one: str(one["metadata"]["name"])):
            self._judge(attempt, quota, asked, store)

    def _judge(self, attempt: Attempt, quota: Object, asked: Usage, store: Store) -> None:
        assert attempt.new is not None
        status = quota.get("status") or {}
        hard = status.get("hard") or {}
        if not in_scope(quota["spec"].get("scopes") or [], attempt.kind.resource, attempt.new):
            return
        name = quota["metadata"]["name"]
        subject = attempt.kind.subject
        if attempt.kind.resource == "pods" and attempt.operation == "CREATE":
            missing = missing_compute(attempt.new["spec"], list(hard))
            if missing:
                raise forbidden(subject, attempt.name, f"failed quota: {name}: must specify {'; '.join(missing)}")
        counted = {resource: amount for resource, amount in asked.items() if resource in hard and amount > 0}
        if not counted:
            return
        used = status.get("used") or {}
        unknown = sorted(resource for resource in counted if resource not in used)
        if unknown:
            text = f"status unknown for quota: {name}, resources: {','.join(unknown)}"
            raise forbidden(subject, attempt.name, text)
        over = sorted(one for one in counted if nanos(used[one]) + counted[one] > nanos(hard[one]))
        if over:
            raise forbidden(subject, attempt.name, f"exceeded quota: {name}, {_sums(over, counted, used, hard)}")
        attempt.beforehand.append(lambda: _charge(attempt.namespace, name, counted, store))


def _more(attempt: Attempt) -> Usage:
    """What the write adds to the usage of its object."""
    assert attempt.new is not None
    asked = usage_of(attempt.kind.resource, attempt.new)
    before = usage_of(attempt.kind.resource, attempt.old) if attempt.old is not None else {}
    return {name: amount - before.get(name, 0) for name, amount in asked.items()}


def _sums(over: list[str], counted: Usage, used: Object, hard: Object) -> str:
    requested = ",".join(f"{one}={spelled(counted[one], hard[one])}" for one in over)
    taken = ",".join(f"{one}={used[one]}" for one in over)
    limited = ",".join(f"{one}={hard[one]}" for one in over)
    return f"requested: {requested}, used: {taken}, limited: {limited}"


def _charge(namespace: str, name: str, counted: Usage, store: Store) -> None:
    record = store.current("resourcequotas", f"{namespace}/{name}")
    if record is None:
        return
    quota = record.object()
    used, hard = quota["status"]["used"], quota["status"]["hard"]
    for resource, amount in counted.items():
        used[resource] = spelled(nanos(used[resource]) + amount, hard[resource])
    store.write("resourcequotas", f"{namespace}/{name}", quota)
