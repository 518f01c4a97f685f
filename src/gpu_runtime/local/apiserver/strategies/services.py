"""Services: ports and types; what they are given is in `service_addresses`."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import Cause, disallowed, duplicate, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns1035_label, dns_label, dns_subdomain, label_causes, port_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.store import Store
from gpu_runtime.local.apiserver.strategies.affinity import chosen
from gpu_runtime.local.apiserver.strategies.service_addresses import (
    address_causes,
    allocate_address,
    allocate_health_port,
    allocate_node_ports,
    choose_families,
    external,
    fill_in,
    headless,
    needs_health_port,
    needs_node_ports,
    node_port_causes,
)
from gpu_runtime.local.apiserver.strategy import Strategy, keep

_TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
_PROTOCOLS = ["SCTP", "TCP", "UDP"]
_PORT_RANGE = "must be between 1 and 65535, inclusive"


class ServiceStrategy(Strategy):
    name_rule = staticmethod(dns1035_label)
    rechecks_metadata = False
    create_on_update = True
    returns_deleted = True
    has_status = True
    fields = ("spec.clusterIP", "spec.type")

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", 10800)
        kind = spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports", []):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if _accessible(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def warnings(self, new: Object, old: Object | None) -> list[str]:  # noqa: ARG002
        spec = new["spec"]
        found = []
        if spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None":
            ignored = [name for name in ("loadBalancerIP", "externalIPs") if spec.get(name)]
            ignored += ["SessionAffinity"] if spec.get("sessionAffinity") != "None" else []
            found = [f"spec.{name} is ignored for headless services" for name in ignored]
        if spec.get("type") == "ExternalName" and spec.get("externalIPs"):
            found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        if spec.get("type") != "ExternalName" and spec.get("externalName"):
            found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        return found

    def prepare_create(self, obj: Object, now: str) -> None:  # noqa: ARG002
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object) -> None:
        keep(new, old, "status")
        now, before = new["spec"], old["spec"]
        if external(now) and not external(before):
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
                if now.get(name) == before.get(name):
                    now.pop(name, None)
        _drop_of_old_type(now, before)

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes: list[Cause] = []
        if not spec.get("ports") and not headless(spec) and not external(spec):
            causes.append(required("spec.ports"))
        if headless(spec) and spec["type"] in ("NodePort", "LoadBalancer"):
            text = f"may not be set to 'None' for {spec['type']} services"
            causes.append(wrong("spec.clusterIPs[0]", "None", text))
        if external(spec):
            causes += _external_name(spec)
        causes += _ports(spec)
        causes += label_causes(spec.get("selector", {}), "spec.selector")
        if spec["sessionAffinity"] not in ("ClientIP", "None"):
            causes.append(unsupported("spec.sessionAffinity", spec["sessionAffinity"], ["ClientIP", "None"]))
        if spec["type"] not in _TYPES:
            causes.append(unsupported("spec.type", spec["type"], _TYPES))
        if "internalTrafficPolicy" in spec:
            causes += chosen("spec.internalTrafficPolicy", spec["internalTrafficPolicy"], ["Cluster", "Local"])
        return causes + _traffic_causes(spec) + address_causes(spec) + node_port_causes(spec)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = []
        now, before = new["spec"], old["spec"]
        had = not external(before) and not external(now) and before.get("clusterIP")
        if had and now.get("clusterIPs", [""])[:1] != before.get("clusterIPs", [""])[:1]:
            causes.append(wrong("spec.clusterIPs[0]", now.get("clusterIPs"), "may not change once set"))
        both = needs_health_port(before) and needs_health_port(now)
        if both and now.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
            causes.append(disallowed("spec.healthCheckNodePort", "field is immutable"))
        return causes + self.validate(new)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        ingress = new.get("status", {}).get("loadBalancer", {}).get("ingress")
        if ingress and new["spec"]["type"] != "LoadBalancer":
            text = "may only be used when `spec.type` is 'LoadBalancer'"
            return [disallowed("status.loadBalancer.ingress", text)]
        return []

    def allocate(self, new: Object, old: Object | None, store: Store, *, dry_run: bool) -> list[Cause]:
        spec, before = new["spec"], old["spec"] if old is not None else None
        fill_in(spec, before)
        if wrong_families := choose_families(spec, before):
            return wrong_families
        causes: list[Cause] = []

        def others() -> list[Object]:
            uid = old["metadata"]["uid"] if old is not None else ""
            found = [record.object() for record in store.all_current("services")]
            return [one for one in found if one["metadata"]["uid"] != uid]

        if not external(spec) and (before is None or external(before)):
            if not new["metadata"].get("name") and not spec.get("clusterIP") and not dry_run:
                # The real server gives an address to a name, and says so before it asks for one.
                return [wrong("spec.clusterIPs", [""], "failed to allocate IP: the Service has no name")]
            causes += allocate_address(spec, others)
        if needs_node_ports(spec):
            causes += allocate_node_ports(spec, others)
        if needs_health_port(spec):
            if before is not None and needs_health_port(before):
                spec.setdefault("healthCheckNodePort", before.get("healthCheckNodePort", 0))
            else:
                causes += allocate_health_port(spec, others)
        return causes


def _accessible(spec: Object) -> bool:
    """Whether traffic comes from outside of the cluster."""
    kind = spec.get("type")
    return kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _traffic_causes(spec: Object) -> list[Cause]:
    field, policy = "spec.externalTrafficPolicy", spec.get("externalTrafficPolicy", "")
    causes = []
    if spec.get("healthCheckNodePort") and not needs_health_port(spec):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes = [wrong("spec.healthCheckNodePort", spec["healthCheckNodePort"], text)]
    if not _accessible(spec):
        text = "may only be set for externally-accessible services"
        return causes + ([wrong(field, policy, text)] if policy else [])
    return causes + (chosen(field, policy, ["Cluster", "Local"]) if policy else [required(field)])


def _drop_of_old_type(now: Object, before: Object) -> None:
    """Fields that only the old type has, and that the update left as they were, go with it."""
    same_policy = now.get("externalTrafficPolicy") == before.get("externalTrafficPolicy")
    if _accessible(before) and not _accessible(now) and same_policy:
        now.pop("externalTrafficPolicy", None)
    same_port = now.get("healthCheckNodePort") == before.get("healthCheckNodePort")
    if needs_health_port(before) and not needs_health_port(now) and same_port:
        now.pop("healthCheckNodePort", None)
    if before["type"] in ("NodePort", "LoadBalancer") and now["type"] not in ("NodePort", "LoadBalancer"):
        old_ports = {port.get("nodePort") for port in before.get("ports", [])}
        for port in now.get("ports", []):
            if port.get("nodePort") in old_ports:
                port.pop("nodePort", None)
    if before["type"] == "LoadBalancer" and now["type"] != "LoadBalancer":
        now.pop("allocateLoadBalancerNodePorts", None)


def _external_name(spec: Object) -> list[Cause]:
    causes = []
    if spec.get("clusterIP"):
        text = "may not be set when type is ExternalName"
        causes.append(disallowed("spec.clusterIPs", text))
    name = spec.get("externalName", "").rstrip(".")
    if not name:
        return [*causes, required("spec.externalName")]
    return causes + [wrong("spec.externalName", name, message) for message in dns_subdomain(name)]


def _ports(spec: Object) -> list[Cause]:
    causes: list[Cause] = []
    ports = spec.get("ports", [])
    names: set[str] = set()
    numbers: set[tuple[int, str]] = set()
    for at, port in enumerate(ports):
        field = f"spec.ports[{at}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            causes.append(required(f"{field}.name"))
        elif name:
            causes += [wrong(f"{field}.name", name, message) for message in dns_label(name)]
            if name in names:
                causes.append(duplicate(f"{field}.name", name))
            names.add(name)
        number = port.get("port", 0)
        if not 1 <= number <= 65535:
            causes.append(wrong(f"{field}.port", number, _PORT_RANGE))
        if port["protocol"] not in _PROTOCOLS:
            causes.append(unsupported(f"{field}.protocol", port["protocol"], _PROTOCOLS))
        target = port["targetPort"]
        if isinstance(target, str):
            causes += [wrong(f"{field}.targetPort", target, message) for message in port_name(target)]
        elif not 1 <= target <= 65535:
            causes.append(wrong(f"{field}.targetPort", target, _PORT_RANGE))
        if (number, port["protocol"]) in numbers:
            causes.append(duplicate(field, {"port": number, "protocol": port["protocol"]}))
        numbers.add((number, port["protocol"]))
    return causes
