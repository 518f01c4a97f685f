"""Pods get a priority, default tolerations and their ServiceAccount."""

from __future__ import annotations

from typing import Any

from gpu_runtime.local.apiserver.admission import Attempt, Plugin
from gpu_runtime.local.apiserver.environment import Environment
from gpu_runtime.local.apiserver.errors import forbidden
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.store import Store

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_CLASSES = "priorityclasses.scheduling.k8s.io"


def _new_pod(attempt: Attempt) -> Object | None:
    if attempt.kind.resource != "pods" or attempt.operation != "CREATE" or attempt.subresource:
        return None
    return attempt.new


def _updated_pod(attempt: Attempt) -> Object | None:
    if attempt.kind.resource != "pods" or attempt.operation != "UPDATE" or attempt.subresource:
        return None
    return attempt.new


class Priority(Plugin):
    """Resolves priorityClassName to its value."""

    def admit(self, attempt: Attempt, store: Store) -> None:
        if (updated := _updated_pod(attempt)) is not None:
            self._keep(updated["spec"], (attempt.old or {})["spec"])
            return
        pod = _new_pod(attempt)
        if pod is None:
            return
        spec = pod["spec"]
        name = spec.get("priorityClassName", "")
        found = self._class(name, store)
        if name and found is None:
            raise forbidden(attempt.kind.subject, attempt.name, f"no PriorityClass with name {name} was found")
        value = found.get("value", 0) if found else 0
        policy = found.get("preemptionPolicy", "PreemptLowerPriority") if found else "PreemptLowerPriority"
        if spec.get("priority") is not None and spec["priority"] != value:
            text = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
            raise forbidden(attempt.kind.subject, attempt.name, text)
        if found and not name:
            spec["priorityClassName"] = found["metadata"]["name"]
        spec["priority"] = value
        spec.setdefault("preemptionPolicy", policy)

    def _keep(self, spec: Object, before: Object) -> None:
        """Restores what creation filled in when an update omits it."""
        for name in ("priority", "preemptionPolicy"):
            if spec.get(name) is None and before.get(name) is not None:
                spec[name] = before[name]

    def _class(self, name: str, store: Store) -> Object | None:
        if name:
            record = store.current(_CLASSES, name)
            return record.object() if record is not None else None
        defaults = [found for record in store.all_current(_CLASSES) if (found := record.object()).get("globalDefault")]
        return min(defaults, key=lambda one: one.get("value", 0)) if defaults else None


class RuntimeClass(Plugin):
    """No runtime classes are served, so a pod that asks for one is refused."""

    def check(self, attempt: Attempt, store: Store) -> None:  # noqa: ARG002
        pod = _new_pod(attempt)
        if pod is not None and pod["spec"].get("runtimeClassName"):
            text = f'pod rejected: RuntimeClass "{pod["spec"]["runtimeClassName"]}" not found'
            raise forbidden(attempt.kind.subject, attempt.name, text)


class DefaultTolerations(Plugin):
    """Lets a pod stay five minutes on a node that is not ready or not reachable."""

    def admit(self, attempt: Attempt, store: Store) -> None:  # noqa: ARG002
        pod = _new_pod(attempt) or _updated_pod(attempt)
        if pod is None:
            return
        tolerations = pod["spec"].get("tolerations", [])
        missing = [key for key in _TAINTS if not any(_tolerates(one, key) for one in tolerations)]
        added = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for key in missing]
        if added:
            pod["spec"]["tolerations"] = tolerations + added


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


class ServiceAccounts(Plugin):
    """Requires an existing ServiceAccount. Adds its pull secrets to the pod, and its token unless the pod opts out."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def admit(self, attempt: Attempt, store: Store) -> None:
        pod = _new_pod(attempt)
        if pod is None:
            return
        spec = pod["spec"]
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        record = store.current("serviceaccounts", f"{attempt.namespace}/{name}")
        if record is None:
            text = f'error looking up service account {attempt.namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(attempt.kind.subject, attempt.name, text)
        account = record.object()
        mounts = spec.get("automountServiceAccountToken")
        if mounts is None:
            mounts = account.get("automountServiceAccountToken")
        if mounts is not False:
            self._mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]

    def _mount_token(self, spec: Object) -> None:
        every = [*spec.get("initContainers", []), *spec.get("containers", [])]
        bare = [one for one in every if not any(m.get("mountPath") == _TOKEN_PATH for m in one.get("volumeMounts", []))]
        if not bare:
            return
        name = f"kube-api-access-{self._environment.suffix()}"
        for container in bare:
            mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_PATH}
            container.setdefault("volumeMounts", []).append(mount)
        spec.setdefault("volumes", []).append({"name": name, "projected": _token_sources()})


def _token_sources() -> dict[str, Any]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }
