"""EndpointSlices: which pods stand behind a Service, and which of them are ready."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec

from gpu_runtime.api.meta.names import joined
from gpu_runtime.api.meta.object import Key, ObjectMeta, controller_reference
from gpu_runtime.kube.children import Children
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.controller import Result
from gpu_runtime.kube.store import Store
from gpu_runtime.local.controllers.claiming import OWNER
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.services import (
    ENDPOINT_SLICES,
    SERVICES,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Service,
    TargetRef,
)

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
MOST_ENDPOINTS = 100
NAMESPACE = "namespace"


def target_ports(service: Service, pod: Pod) -> tuple[EndpointPort, ...]:
    """The ports of the Service as this pod serves them: a named one may have another number in each pod."""
    named = {
        (port.name, port.protocol): port.containerPort
        for container in pod.spec.containers
        for port in container.ports
        if port.name
    }
    found = []
    for port in service.spec.ports:
        target = port.targetPort if port.targetPort is not None else port.port
        number = named.get((target, port.protocol)) if isinstance(target, str) else target or port.port
        if number is not None:
            found.append(
                EndpointPort(name=port.name, port=number, protocol=port.protocol, appProtocol=port.appProtocol)
            )
    return tuple(found)


def endpoint(service: Service, pod: Pod) -> Endpoint:
    terminating = pod.metadata.deletionTimestamp is not None
    ready = service.spec.publishNotReadyAddresses or (pod.ready and not terminating)
    named = pod.spec.hostname if pod.spec.hostname and pod.spec.subdomain == service.metadata.name else ""
    return Endpoint(
        addresses=[pod.status.podIP],
        conditions=EndpointConditions(ready=ready, serving=pod.ready, terminating=terminating),
        hostname=named,
        nodeName=pod.spec.nodeName,
        targetRef=TargetRef("Pod", pod.metadata.name, pod.metadata.namespace, pod.metadata.uid),
    )


def slices(service: Service, pods: Sequence[Pod]) -> list[EndpointSlice]:
    """The slices of a Service: one for each set of ports, a hundred endpoints in each; one without any if none fit."""
    groups: dict[tuple[EndpointPort, ...], list[Endpoint]] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if pod.status.podIP and not pod.finished:
            groups.setdefault(target_ports(service, pod), []).append(endpoint(service, pod))
    if not groups:
        return [_slice(service, (), [], 0)]
    return [
        _slice(service, ports, endpoints[start : start + MOST_ENDPOINTS], start // MOST_ENDPOINTS)
        for ports, endpoints in groups.items()
        for start in range(0, len(endpoints), MOST_ENDPOINTS)
    ]


def _slice(service: Service, ports: tuple[EndpointPort, ...], endpoints: list[Endpoint], number: int) -> EndpointSlice:
    meta = service.metadata
    # The first slice keeps its name whatever its ports are, so that it is changed and not made anew.
    same_everywhere = all(not isinstance(port.targetPort, str) for port in service.spec.ports)
    about = "" if same_everywhere else msgspec.json.encode(ports).decode()
    digest = hashlib.sha256(f"{meta.uid} {number} {about}".encode()).hexdigest()[:5]
    labels = {
        **meta.labels,
        SERVICE_NAME: meta.name,
        MANAGED_BY: MANAGER,
        **({HEADLESS: ""} if service.spec.clusterIP == "None" else {}),
    }
    return EndpointSlice(
        metadata=ObjectMeta(
            name=joined(meta.name, digest),
            namespace=meta.namespace,
            labels=labels,
            ownerReferences=[controller_reference(SERVICES.api_version, SERVICES.kind, meta)],
        ),
        addressType="IPv4",
        endpoints=endpoints,
        ports=list(ports),
    )


class EndpointSliceReconciler:
    """Keeps the slices of one Service as they should be."""

    def __init__(
        self, client: Client, services: Store[Service], pods: Store[Pod], cached: Store[EndpointSlice]
    ) -> None:
        self._children = Children(client)
        self._services = services
        self._pods = pods
        self._cached = cached

    def services_of(self, pod: Pod) -> list[Key]:
        """The Services that a change of the pod concerns."""
        same = self._services.find(NAMESPACE, pod.metadata.namespace)
        return [one.metadata.key for one in same if one.selects(pod)]

    async def reconcile(self, key: Key) -> Result:
        service = self._services.get(key)
        if service is None or service.metadata.deletionTimestamp is not None or not service.spec.selector:
            return Result()
        pods = [pod for pod in self._pods.find(NAMESPACE, key.namespace) if service.selects(pod)]
        desired = slices(service, pods)
        names = {one.metadata.name for one in desired}
        stale = [one for one in self._cached.find(OWNER, service.metadata.uid) if one.metadata.name not in names]
        await asyncio.gather(
            *(self._children.ensure(ENDPOINT_SLICES, one, self._cached.get(one.metadata.key)) for one in desired),
            *(self._children.delete(ENDPOINT_SLICES, service.metadata, one) for one in stale),
        )
        return Result()
