"""Services: ports, types, cluster addresses and node ports."""

from __future__ import annotations

import ipaddress
import random

from gpu_runtime.local.apiserver.errors import Cause, disallowed, duplicate, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns1035_label, dns_label, dns_subdomain, label_causes, port_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.store import Store
from gpu_runtime.local.apiserver.strategy import Strategy, keep

RANGE = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
_PROTOCOLS = ["SCTP", "TCP", "UDP"]
_PORT_RANGE = "must be between 1 and 65535, inclusive"


class ServiceStrategy(Strategy):
    name_rule = staticmethod(dns1035_label)
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
        if kind in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def prepare_create(self, obj: Object, now: str) -> None:  # noqa: ARG002
        obj["status"] = {"loadBalancer": {}}
        _pair_addresses(obj["spec"])
        _families(obj["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:
        keep(new, old, "status")
        now, before = new["spec"], old["spec"]
        if now["type"] != "ExternalName":
            if not now.get("clusterIP") and not now.get("clusterIPs"):
                # A client that never read the address keeps it.
                keep(now, before, "clusterIP")
                keep(now, before, "clusterIPs")
            changed = now.get("clusterIP") != before.get("clusterIP")
            if changed and now.get("clusterIPs") == before.get("clusterIPs"):
                now["clusterIPs"] = [now["clusterIP"]] if now.get("clusterIP") else []
            _pair_addresses(now)
            for name in ("ipFamilies", "ipFamilyPolicy"):
                if name not in now and before["type"] != "ExternalName":
                    keep(now, before, name)
            _families(now)
        elif before["type"] != "ExternalName":
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
                now.pop(name, None)
        _drop_of_old_type(now, before)

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        headless = spec.get("clusterIP") == "None"
        causes: list[Cause] = []
        if not spec.get("ports") and not headless and spec["type"] != "ExternalName":
            causes.append(required("spec.ports"))
        if headless and spec["type"] in ("NodePort", "LoadBalancer"):
            text = f"may not be set to 'None' for {spec['type']} services"
            causes.append(wrong("spec.clusterIPs[0]", "None", text))
        if spec["type"] == "ExternalName":
            causes += _external_name(spec)
        causes += _ports(spec, headless)
        causes += label_causes(spec.get("selector", {}), "spec.selector")
        if spec["sessionAffinity"] not in ("ClientIP", "None"):
            causes.append(unsupported("spec.sessionAffinity", spec["sessionAffinity"], ["ClientIP", "None"]))
        if spec["type"] not in _TYPES:
            causes.append(unsupported("spec.type", spec["type"], _TYPES))
        causes += _addresses(spec)
        return causes + _node_ports(spec)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = []
        now, before = new["spec"], old["spec"]
        had = before["type"] != "ExternalName" and now["type"] != "ExternalName" and before.get("clusterIP")
        if had and now.get("clusterIPs", [""])[:1] != before.get("clusterIPs", [""])[:1]:
            causes.append(wrong("spec.clusterIPs[0]", now.get("clusterIPs"), "may not change once set"))
        return causes + self.validate(new)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        ingress = new.get("status", {}).get("loadBalancer", {}).get("ingress")
        if ingress and new["spec"]["type"] != "LoadBalancer":
            text = "may only be used when `spec.type` is 'LoadBalancer'"
            return [disallowed("status.loadBalancer.ingress", text)]
        return []

    def allocate(self, new: Object, old: Object | None, store: Store) -> list[Cause]:
        spec = new["spec"]
        if spec["type"] == "ExternalName":
            return []
        _pair_addresses(spec)
        if wrong_addresses := _addresses(spec):
            return wrong_addresses
        if not new["metadata"].get("name") and not spec.get("clusterIP"):
            # The real server gives an address to a name, and says so before it asks for one.
            return [wrong("spec.clusterIPs", [""], "failed to allocate IP: the Service has no name")]
        others = [record.object() for record in store.all_current("services")]
        others = [one for one in others if one["metadata"].get("uid") != new["metadata"].get("uid")]
        causes = _allocate_address(spec, old, others)
        if spec["type"] in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts", True):
            causes += _allocate_node_ports(spec, others)
        return causes


def _pair_addresses(spec: Object) -> None:
    """`clusterIP` and `clusterIPs[0]` are one field under two names."""
    if spec["type"] == "ExternalName":
        return
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif spec.get("clusterIPs") and not spec.get("clusterIP"):
        spec["clusterIP"] = spec["clusterIPs"][0]


def _families(spec: Object) -> None:
    if spec["type"] == "ExternalName":
        return
    both = spec.get("clusterIP") == "None" and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])


def _drop_of_old_type(now: Object, before: Object) -> None:
    """Fields that only the old type has, and that the update left as they were, go with it."""
    if before["type"] in ("NodePort", "LoadBalancer") and now["type"] not in ("NodePort", "LoadBalancer"):
        if now.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            now.pop("externalTrafficPolicy", None)
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


def _ports(spec: Object, headless: bool) -> list[Cause]:
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
    return causes if not headless or ports else []


def _addresses(spec: Object) -> list[Cause]:
    found = spec.get("clusterIPs") or []
    if spec["type"] == "ExternalName" or not found:
        return []
    if spec.get("clusterIP") != found[0]:
        return [wrong("spec.clusterIPs", found, "first value must match `clusterIP`")]
    if found[0] == "None":
        return []
    try:
        ipaddress.ip_address(found[0])
    except ValueError:
        return [wrong("spec.clusterIPs[0]", found[0], "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def _node_ports(spec: Object) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[int, str]] = set()
    for at, port in enumerate(spec.get("ports", [])):
        number = port.get("nodePort", 0)
        if not number:
            continue
        field = f"spec.ports[{at}].nodePort"
        if spec["type"] == "ClusterIP":
            causes.append(disallowed(field, "may not be used when `type` is 'ClusterIP'"))
        elif (number, port["protocol"]) in seen:
            causes.append(duplicate(field, number))
        seen.add((number, port["protocol"]))
    return causes


def _allocate_address(spec: Object, old: Object | None, others: list[Object]) -> list[Cause]:
    wanted = spec.get("clusterIP", "")
    if wanted == "None" or (old is not None and old["spec"].get("clusterIP") == wanted and wanted):
        return []
    used = {one["spec"].get("clusterIP") for one in others}
    if wanted:
        if ipaddress.ip_address(wanted) not in RANGE:
            why = f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {RANGE}"
            text = f"failed to allocate IP {wanted}: {why}"
            return [wrong("spec.clusterIPs", [wanted], text)]
        if wanted in used:
            return [
                wrong("spec.clusterIPs", [wanted], f"failed to allocate IP {wanted}: provided IP is already allocated")
            ]
        return []
    while True:
        address = str(RANGE[random.randint(256, RANGE.num_addresses - 2)])  # noqa: S311 - an address, not a secret
        if address not in used:
            spec["clusterIP"], spec["clusterIPs"] = address, [address]
            return []


def _allocate_node_ports(spec: Object, others: list[Object]) -> list[Cause]:
    causes = []
    used = {(port.get("nodePort"), port.get("protocol")) for one in others for port in one["spec"].get("ports") or []}
    for at, port in enumerate(spec.get("ports", [])):
        number = port.get("nodePort")
        if number:
            field = f"spec.ports[{at}].nodePort"
            if number not in NODE_PORTS:
                ports = f"{NODE_PORTS[0]}-{NODE_PORTS[-1]}"
                text = f"provided port is not in the valid range. The range of valid ports is {ports}"
                causes.append(wrong(field, number, text))
            elif (number, port["protocol"]) in used:
                causes.append(wrong(field, number, "provided port is already allocated"))
            continue
        while True:
            number = random.choice(NODE_PORTS)  # noqa: S311 - a port, not a secret
            if (number, port["protocol"]) not in used:
                break
        port["nodePort"] = number
        used.add((number, port["protocol"]))
    return causes
