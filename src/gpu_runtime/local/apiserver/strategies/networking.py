"""NetworkPolicies and EndpointSlices."""

from __future__ import annotations

import ipaddress

from gpu_runtime.local.apiserver.errors import Cause, disallowed, immutable, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import dns_label, dns_subdomain, port_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.affinity import selector_causes
from gpu_runtime.local.apiserver.strategy import Strategy, bump_generation

_PROTOCOLS = ["SCTP", "TCP", "UDP"]
_PORT_RANGE = "must be between 1 and 65535, inclusive"


class NetworkPolicyStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for rule in [*spec.get("ingress", []), *spec.get("egress", [])]:
            for port in rule.get("ports", []):
                port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = selector_causes(spec.get("podSelector", {}), "spec.podSelector")
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for at, rule in enumerate(spec.get(direction, [])):
                field = f"spec.{direction}[{at}]"
                for index, port in enumerate(rule.get("ports", [])):
                    causes += _port(port, f"{field}.ports[{index}]")
                for index, peer in enumerate(rule.get(peers, [])):
                    causes += _peer(peer, f"{field}.{peers}[{index}]")
        types = spec.get("policyTypes", [])
        if len(types) > 2:
            return [*causes, wrong("spec.policyTypes", types, "may not specify more than two policyTypes")]
        for at, one in enumerate(types):
            if one not in ("Ingress", "Egress"):
                causes.append(unsupported(f"spec.policyTypes[{at}]", one, ["Egress", "Ingress"]))
        return causes


def _port(port: Object, field: str) -> list[Cause]:
    causes = []
    if port["protocol"] not in _PROTOCOLS:
        causes.append(unsupported(f"{field}.protocol", port["protocol"], _PROTOCOLS))
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, str):
        causes += [wrong(f"{field}.port", number, message) for message in port_name(number)]
    elif number is not None and not 1 <= number <= 65535:
        causes.append(wrong(f"{field}.port", number, _PORT_RANGE))
    if end is not None:
        if not isinstance(number, int):
            causes.append(wrong(f"{field}.endPort", end, "may not be specified when `port` is non-numeric"))
        elif end < number:
            causes.append(wrong(f"{field}.endPort", end, "must be greater than or equal to `port`"))
    return causes


def _peer(peer: Object, field: str) -> list[Cause]:
    causes = []
    for name in ("podSelector", "namespaceSelector"):
        if name in peer:
            causes += selector_causes(peer[name], f"{field}.{name}")
    if "ipBlock" in peer:
        causes += _block(peer["ipBlock"], f"{field}.ipBlock")
    if not peer:
        causes.append(required(field, "must specify a peer"))
    elif "ipBlock" in peer and len(peer) > 1:
        causes.append(disallowed(field, "may not specify both ipBlock and another peer"))
    return causes


def _block(block: Object, field: str) -> list[Cause]:
    if not block.get("cidr"):
        return [required(f"{field}.cidr")]
    try:
        network = ipaddress.ip_network(block["cidr"], strict=False)
    except ValueError:
        text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        return [wrong(f"{field}.cidr", block["cidr"], text)]
    causes = []
    for at, one in enumerate(block.get("except", [])):
        try:
            inner = ipaddress.ip_network(one, strict=False)
            inside = inner.version == network.version and inner.subnet_of(network) and inner != network  # type: ignore[arg-type]
        except ValueError:
            inside = False
        if not inside:
            text = "must be a strict subset of `cidr`"
            causes.append(wrong(f"{field}.except[{at}]", one, text))
    return causes


class EndpointSliceStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        for port in obj.get("ports", []):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_update(self, new: Object, old: Object) -> None:
        def desired(one: Object) -> Object:
            return {key: value for key, value in one.items() if key != "metadata"}

        labels = new["metadata"].get("labels") != old["metadata"].get("labels")
        if labels or desired(new) != desired(old):
            bump_generation(new, old)

    def validate(self, obj: Object) -> list[Cause]:
        kind = obj.get("addressType", "")
        causes: list[Cause] = []
        if not kind:
            causes.append(required("addressType"))
        elif kind not in ("IPv4", "IPv6", "FQDN"):
            causes.append(unsupported("addressType", kind, ["FQDN", "IPv4", "IPv6"]))
        for at, endpoint in enumerate(obj.get("endpoints", [])):
            causes += _endpoint(endpoint, kind, f"endpoints[{at}]")
        names: set[str] = set()
        for at, port in enumerate(obj.get("ports", [])):
            field = f"ports[{at}]"
            if port["name"]:
                causes += [wrong(f"{field}.name", port["name"], message) for message in dns_label(port["name"])]
            if port["name"] in names:
                causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{port["name"]}"', f"{field}.name"))
            names.add(port["name"])
            if port["protocol"] not in _PROTOCOLS:
                causes.append(unsupported(f"{field}.protocol", port["protocol"], _PROTOCOLS))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate(new)
        if new.get("addressType") != old.get("addressType"):
            causes.append(immutable("addressType", new.get("addressType")))
        return causes


def _endpoint(endpoint: Object, kind: str, field: str) -> list[Cause]:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        return [required(f"{field}.addresses", "must contain at least 1 address")]
    causes = []
    for at, address in enumerate(addresses):
        inside = f"{field}.addresses[{at}]"
        if kind == "FQDN":
            causes += [wrong(inside, address, message) for message in dns_subdomain(address)]
            continue
        try:
            version = ipaddress.ip_address(address).version
        except ValueError:
            causes.append(wrong(inside, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
            continue
        if kind in ("IPv4", "IPv6") and kind != f"IPv{version}":
            causes.append(wrong(inside, address, f"must be an {kind} address"))
    if endpoint.get("nodeName"):
        causes += [wrong(f"{field}.nodeName", endpoint["nodeName"], one) for one in dns_subdomain(endpoint["nodeName"])]
    return causes
