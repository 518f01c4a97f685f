"""A container's variables and command, resolved as Kubernetes resolves them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.local.kinds.container import Container, EnvSource, KeyRef, ResourceFieldRef
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.services import Service
from gpu_runtime.local.kinds.storage import ConfigMap, Secret
from gpu_runtime.local.node.expansion import expand

T = TypeVar("T")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigError(Exception):
    """The container cannot be configured yet, and the message says why."""

    reason = "CreateContainerConfigError"


class NoCommand(ConfigError):
    """The container has no command. Usually its author expects an image that has one."""

    reason = "CreateContainerError"

    def __init__(self) -> None:
        super().__init__("no command specified: this machine is the image of every container, so each needs a command")


def references(container: Container) -> tuple[set[str], set[str]]:
    """The names of the ConfigMaps and Secrets that the container's variables come from."""
    config_maps = {source.configMapRef.name for source in container.envFrom if source.configMapRef}
    secrets = {source.secretRef.name for source in container.envFrom if source.secretRef}
    for variable in container.env:
        source = variable.valueFrom
        if source and source.configMapKeyRef:
            config_maps.add(source.configMapKeyRef.name)
        if source and source.secretKeyRef:
            secrets.add(source.secretKeyRef.name)
    return config_maps, secrets


def variables(
    pod: Pod,
    container: Container,
    *,
    config_maps: Mapping[str, ConfigMap],
    secrets: Mapping[str, Secret],
    services: Sequence[Service] = (),
    pod_ip: str,
    host_ip: str,
    allocatable: Mapping[str, str],
) -> dict[str, str]:
    """The container's environment: Service links, then envFrom, then env, each able to use what came before."""
    found = service_links(services) if pod.spec.enableServiceLinks else {}
    for source in container.envFrom:
        if source.configMapRef:
            config_map = _required(config_maps, source.configMapRef, "configmap")
            for key, value in config_map.data.items() if config_map else ():
                found[source.prefix + key] = value
        if source.secretRef:
            secret = _required(secrets, source.secretRef, "secret")
            for key, raw in secret.data.items() if secret else ():
                found[source.prefix + key] = raw.decode(errors="replace")
    for variable in container.env:
        if variable.valueFrom is None:
            found[variable.name] = expand(variable.value, found)
            continue
        given = _from_source(pod, container, variable.valueFrom, config_maps, secrets, (pod_ip, host_ip), allocatable)
        if given is not None:
            found[variable.name] = given
    return found


def command(container: Container, environment: Mapping[str, str]) -> list[str]:
    """The whole argument list. There is no image that has a default one."""
    words = [expand(word, environment) for word in (*container.command, *container.args)]
    if not words:
        raise NoCommand
    return words


def _required(known: Mapping[str, T], reference: KeyRef, kind: str) -> T | None:
    found = known.get(reference.name)
    if found is None and not reference.optional:
        raise ConfigError(f'{kind} "{reference.name}" not found')
    return found


def _from_source(
    pod: Pod,
    container: Container,
    source: EnvSource,
    config_maps: Mapping[str, ConfigMap],
    secrets: Mapping[str, Secret],
    addresses: tuple[str, str],
    allocatable: Mapping[str, str],
) -> str | None:
    if source.fieldRef:
        return field(pod, source.fieldRef.fieldPath, *addresses)
    if source.resourceFieldRef:
        return resource_field(pod, container, source.resourceFieldRef, allocatable)
    value: str | bytes | None = None
    if reference := source.configMapKeyRef:
        config_map = _required(config_maps, reference, "configmap")
        value, kind = config_map.data.get(reference.key) if config_map else None, "ConfigMap"
    elif reference := source.secretKeyRef:
        secret = _required(secrets, reference, "secret")
        value, kind = secret.data.get(reference.key) if secret else None, "Secret"
    if value is None and reference and not reference.optional:
        raise ConfigError(f"couldn't find key {reference.key} in {kind} {pod.metadata.namespace}/{reference.name}")
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def field(pod: Pod, path: str, pod_ip: str, host_ip: str) -> str:
    """A field of the pod itself, as the downward API gives it."""
    meta = pod.metadata
    if match := _SUBSCRIPT.fullmatch(path):
        return {"labels": meta.labels, "annotations": meta.annotations}[match[1]].get(match[2], "")
    plain = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": pod.spec.nodeName,
        "spec.serviceAccountName": pod.spec.serviceAccountName,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    if path in plain:
        return plain[path]
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = meta.labels if path.endswith("labels") else meta.annotations
        return "\n".join(f"{key}={json.dumps(value)}" for key, value in sorted(pairs.items()))
    raise ConfigError(f"unsupported fieldPath: {path}")


def resource_field(pod: Pod, container: Container, reference: ResourceFieldRef, allocatable: Mapping[str, str]) -> str:
    """A limit or request of a container in units of the divisor, rounded up; no limit means the node's amount."""
    holder = container
    if reference.containerName:
        everyone = [*pod.spec.initContainers, *pod.spec.containers]
        named = [each for each in everyone if each.name == reference.containerName]
        if not named:
            raise ConfigError(f"container {reference.containerName} not found")
        holder = named[0]
    kind, _, name = reference.resource.partition(".")
    given = holder.resources.limits if kind == "limits" else holder.resources.requests
    text = given.get(name) or (allocatable.get(name, "0") if kind == "limits" else "0")
    divisor = Quantity.parse(reference.divisor).nanos or 10**9
    return str(-(-Quantity.parse(text).nanos // divisor))


def service_links(services: Sequence[Service]) -> dict[str, str]:
    """NAME_SERVICE_HOST and NAME_SERVICE_PORT of each Service of the pod's namespace."""
    links: dict[str, str] = {}
    for service in services:
        if service.spec.clusterIP in ("", "None") or not service.spec.ports:
            continue
        prefix = _variable(service.metadata.name)
        links[f"{prefix}_SERVICE_HOST"] = service.spec.clusterIP
        links[f"{prefix}_SERVICE_PORT"] = str(service.spec.ports[0].port)
        for port in service.spec.ports:
            if port.name:
                links[f"{prefix}_SERVICE_PORT_{_variable(port.name)}"] = str(port.port)
    return links


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
