"""The defaults of pods and pod templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_runtime.local.apiserver.records import Object

_MODES = ("secret", "configMap", "downwardAPI", "projected")


def default_pod(pod: Object) -> None:
    """A Pod, which also gets what a template does not: requests from limits, service links."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)
    for container in containers(spec):
        _requests_from_limits(container)
        if spec.get("hostNetwork"):
            for port in container.get("ports", []):
                port.setdefault("hostPort", port.get("containerPort", 0))
    if spec.get("resources"):
        _pod_level_requests(spec)


def _requests_from_limits(container: Object) -> None:
    resources = container.get("resources") or {}
    if resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, amount in resources["limits"].items():
            requests.setdefault(name, amount)


def _pod_level_requests(spec: Object) -> None:
    resources = spec["resources"]
    for name, amount in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(name, amount)


def default_template(template: Object) -> None:
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Object) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # Two names for one field: clients of both must see it.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers(spec):
        _default_container(container)
    for volume in spec.get("volumes", []):
        _default_volume(volume)
    for toleration in spec.get("tolerations", []):
        if toleration.get("operator") == "":
            del toleration["operator"]


def containers(spec: Object) -> Iterator[Object]:
    """Every container, the init ones first."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or []


def pull_policy(image: str) -> str:
    """Always for `latest` and untagged images, else IfNotPresent."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_container(container: Object) -> None:
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", []):
        port.setdefault("protocol", "TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _default_http(hook)
    for variable in container.get("env", []):
        _default_field_reference(variable.get("valueFrom") or {})


def _default_probe(probe: Object) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(name, value)
    _default_http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(handler: Object) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _default_field_reference(source: Object) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")


def _default_volume(volume: Object) -> None:
    if len(volume) <= 1:
        volume["emptyDir"] = {}
    for name in _MODES:
        if name in volume:
            volume[name].setdefault("defaultMode", 420)
    for item in (volume.get("downwardAPI") or {}).get("items", []):
        _default_field_reference(item)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in (volume.get("projected") or {}).get("sources", []):
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items", []):
            _default_field_reference(item)
    if "ephemeral" in volume:
        claim: Any = volume["ephemeral"].get("volumeClaimTemplate") or {}
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
