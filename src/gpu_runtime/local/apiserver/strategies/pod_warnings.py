"""What the real server warns of in a valid pod or template, as far as it is about fields that are acted on here."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_runtime.local.apiserver.names import dns_label
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.resources import fraction_warnings

_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def name_warnings(name: str, use: str) -> list[str]:
    """A name that makes no host name."""
    found = dns_label(name)
    text = f"metadata.name: this is used in {use}, which can result in surprising behavior; a DNS label is recommended"
    return [f"{text}: [{' '.join(found)}]"] if found else []


def template_warnings(new: Object, old: Object | None) -> list[str]:
    """Of what makes pods: when it is made, and when what it makes changes."""
    if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    names = name_warnings(new["metadata"]["name"], "Pod names and hostnames") if old is None else []
    return names + pod_warnings(new["spec"].get("template", {}).get("spec", {}), "spec.template.spec")


def pod_warnings(spec: Object, field: str) -> list[str]:
    """`field` is where the spec stands."""
    return [*_spec_warnings(spec, field), *_container_warnings(spec, field), *_port_warnings(spec, field)]


def _containers(spec: Object, field: str) -> Iterator[tuple[str, Object]]:
    for part in ("initContainers", "containers"):
        for at, one in enumerate(spec.get(part) or []):
            yield f"{field}.{part}[{at}]", one


def _spec_warnings(spec: Object, field: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or {}:
        if key in _NODE_LABELS:
            yield f"{field}.nodeSelector[{key}]: {_NODE_LABELS[key]}"
    for part, name in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        values = [one.get(name, "") for one in spec.get(part) or []]
        for at, value in enumerate(values):
            if value in values[:at]:
                yield f'{field}.{part}[{at}].{name}: duplicate {name} "{value}"'
    for at, one in enumerate(spec.get("imagePullSecrets") or []):
        if not one.get("name"):
            yield f'{field}.imagePullSecrets[{at}].name: invalid empty name ""'
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        where = f"{field}.terminationGracePeriodSeconds"
        yield f"{where}: must be >= 0; negative values are invalid and will be treated as 1"


def _container_warnings(spec: Object, field: str) -> Iterator[str]:
    for where, container in _containers(spec, field):
        resources = container.get("resources") or {}
        for name in ("memory", "ephemeral-storage"):
            for part in ("limits", "requests"):
                yield from fraction_warnings(f"{where}.resources.{part}", resources.get(part) or {}, name)
        seen = set()
        for at, one in enumerate(container.get("env") or []):
            name, value = one.get("name", ""), one.get("value", "")
            ref = f"$({name})"
            if name in seen and ("valueFrom" in one or value == ref or ref not in value):
                yield f'{where}.env[{at}]: hides previous definition of "{name}", which may be dropped when using apply'
            seen.add(name)


def _port_warnings(spec: Object, field: str) -> Iterator[str]:
    known: dict[tuple[int, str], list[tuple[str, Object]]] = {}
    names: dict[str, str] = {}
    named = []
    for where, container in _containers(spec, field):
        for at, port in enumerate(container.get("ports") or []):
            here = f"{where}.ports[{at}]"
            others = known.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
            for there, other in others:
                yield from _overlap(here, port, there, other)
            others.append((here, port))
            if name := port.get("name"):
                if name in names:
                    use = f"services and probes that select ports by name will use {names[name]}"
                    named.append(f'{here}: duplicate port name "{name}" with {names[name]}, {use}')
                names.setdefault(name, here)
    yield from named


def _overlap(here: str, port: Object, there: str, other: Object) -> Iterator[str]:
    address, number = port.get("hostIP", ""), port.get("hostPort", 0)
    other_address, other_number = other.get("hostIP", ""), other.get("hostPort", 0)
    if (address, number) == (other_address, other_number):
        yield f"{here}: duplicate port definition with {there}"
    elif not number or not other_number:
        yield f"{here}: overlapping port definition with {there}"
    elif number == other_number and bool(address) != bool(other_address):
        yield f"{here}: dangerously ambiguous port definition with {there}"
