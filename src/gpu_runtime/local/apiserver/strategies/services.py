"""Services of type ClusterIP: ports and addresses. Other types are kept as they come, because nothing serves them."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import Cause, disallowed, duplicate, required, wrong
from gpu_runtime.local.apiserver.names import dns1035_label, dns_label, label_causes, port_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.store import Store
from gpu_runtime.local.apiserver.strategies.service_addresses import (
    address_causes,
    allocate_address,
    choose_families,
    fill_in,
    headless,
)
from gpu_runtime.local.apiserver.strategy import Strategy, keep

_PORT_RANGE = "must be between 1 and 65535, inclusive"


def served(spec: Object) -> bool:
    return bool(spec["type"] == "ClusterIP")


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
        spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports", []):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if served(spec):
            spec.setdefault("internalTrafficPolicy", "Cluster")
            if spec.get("externalIPs"):
                spec.setdefault("externalTrafficPolicy", "Cluster")

    def prepare_create(self, obj: Object, now: str) -> None:  # noqa: ARG002
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object) -> None:
        keep(new, old, "status")
        now, before = new["spec"], old["spec"]
        unreachable = before.get("externalIPs") and not now.get("externalIPs")
        if unreachable and now.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            now.pop("externalTrafficPolicy", None)

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        if not served(spec):
            return []
        causes: list[Cause] = []
        if not spec.get("ports") and not headless(spec):
            causes.append(required("spec.ports"))
        causes += _ports(spec)
        causes += label_causes(spec.get("selector", {}), "spec.selector")
        if spec.get("healthCheckNodePort"):
            text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            causes.append(wrong("spec.healthCheckNodePort", spec["healthCheckNodePort"], text))
        if spec.get("externalTrafficPolicy") and not spec.get("externalIPs"):
            text = "may only be set for externally-accessible services"
            causes.append(wrong("spec.externalTrafficPolicy", spec["externalTrafficPolicy"], text))
        return causes + address_causes(spec)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        now, before = new["spec"], old["spec"]
        causes = []
        had = served(before) and served(now) and before.get("clusterIP")
        if had and now.get("clusterIPs", [""])[:1] != before.get("clusterIPs", [""])[:1]:
            causes.append(wrong("spec.clusterIPs[0]", now.get("clusterIPs"), "may not change once set"))
        return causes + self.validate(new)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        ingress = new.get("status", {}).get("loadBalancer", {}).get("ingress")
        if ingress and new["spec"]["type"] != "LoadBalancer":
            text = "may only be used when `spec.type` is 'LoadBalancer'"
            return [disallowed("status.loadBalancer.ingress", text)]
        return []

    def allocate(self, new: Object, old: Object | None, store: Store, *, dry_run: bool) -> list[Cause]:
        spec, before = new["spec"], old["spec"] if old is not None else None
        if not served(spec):
            return []
        fill_in(spec, before)
        if wrong_families := choose_families(spec, before):
            return wrong_families
        if before is not None and before.get("clusterIP"):
            return []
        if not new["metadata"].get("name") and not spec.get("clusterIP") and not dry_run:
            # The real server allocates the address before it requires a name, and reports this error.
            return [wrong("spec.clusterIPs", [""], "failed to allocate IP: the Service has no name")]
        return allocate_address(spec, {one.object()["spec"].get("clusterIP") for one in store.all_current("services")})


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
        target = port["targetPort"]
        if isinstance(target, str):
            causes += [wrong(f"{field}.targetPort", target, message) for message in port_name(target)]
        elif not 1 <= target <= 65535:
            causes.append(wrong(f"{field}.targetPort", target, _PORT_RANGE))
        if (number, port["protocol"]) in numbers:
            causes.append(duplicate(field, {"port": number, "protocol": port["protocol"]}))
        numbers.add((number, port["protocol"]))
        if port.get("nodePort"):
            causes.append(disallowed(f"{field}.nodePort", "may not be used when `type` is 'ClusterIP'"))
    return causes
