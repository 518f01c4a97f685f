"""Namespace life cycle: refuses objects in a namespace that does not exist or is being deleted."""

from __future__ import annotations

from gpu_runtime.local.apiserver.admission import Attempt, Plugin
from gpu_runtime.local.apiserver.errors import Cause, Subject, forbidden, not_found
from gpu_runtime.local.apiserver.store import Store

_NAMESPACES = Subject("", "namespaces", "Namespace")
IMMORTAL = ("default", "kube-system", "kube-public")


class NamespaceLifecycle(Plugin):
    def admit(self, attempt: Attempt, store: Store) -> None:
        if attempt.operation == "DELETE" and attempt.kind.resource == "namespaces" and attempt.name in IMMORTAL:
            raise forbidden(attempt.kind.subject, attempt.name, "this namespace may not be deleted")
        if attempt.operation != "CREATE" or not attempt.kind.namespaced:
            return
        found = store.current("namespaces", attempt.namespace)
        if found is None:
            raise not_found(_NAMESPACES, attempt.namespace)
        if found.object()["metadata"].get("deletionTimestamp"):
            text = f"unable to create new content in namespace {attempt.namespace} because it is being terminated"
            cause = Cause(
                "NamespaceTerminating", f"namespace {attempt.namespace} is being terminated", "metadata.namespace"
            )
            raise forbidden(attempt.kind.subject, attempt.name, text, [cause])
