"""Gives a Service its cluster address, of the one IP family that is configured."""

from __future__ import annotations

import ipaddress
import random

from gpu_runtime.local.apiserver.errors import Cause, duplicate, internal, wrong
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.affinity import chosen
from gpu_runtime.local.apiserver.strategy import keep

RANGE = ipaddress.ip_network("10.96.0.0/16")
_KEPT_ADDRESSES = 257  # the network's first 256, which are given out on request alone, and its last

_CONFIGURED = "IPv4"
_FAMILIES = ["IPv4", "IPv6"]
_POLICIES = ["PreferDualStack", "RequireDualStack", "SingleStack"]
_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_TWICE = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"


def headless(spec: Object) -> bool:
    return spec.get("clusterIP") == "None"


def fill_in(spec: Object, before: Object | None) -> None:
    """`clusterIP` and `clusterIPs[0]` are one field under two names; a client that read neither keeps both."""
    if before is None:
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        return
    for name in ("clusterIP", "clusterIPs"):
        if not spec.get(name):
            keep(spec, before, name)
    if spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []


def choose_families(spec: Object, before: Object | None) -> list[Cause]:
    """Fills in the families of the addresses, or says why they cannot be had."""
    both = headless(spec) and not spec.get("selector")
    if "ipFamilyPolicy" not in spec:
        keep(spec, before or {}, "ipFamilyPolicy")
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
    if causes := address_causes(spec):
        return causes
    policy = spec["ipFamilyPolicy"]
    if before is not None:
        causes = _fewer(spec, before)
    if policy == "SingleStack":
        for name, what in (("clusterIPs", "cluster IPs are specified"), ("ipFamilies", "IP families are specified")):
            if len(spec.get(name, [])) == 2:
                causes.append(wrong("spec.ipFamilyPolicy", policy, f"{_TWICE} {what}"))
    causes += _families_of_addresses(spec)
    if causes:
        return causes
    return _headless_families(spec) if both else _configured_families(spec)


def _fewer(spec: Object, before: Object) -> list[Cause]:
    """A change from two stacks to one drops the second address and family; any other policy keeps them."""
    causes = []
    for name, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        now, was = spec.get(name, []), before.get(name, [])
        if spec["ipFamilyPolicy"] == "SingleStack":
            if now == was and len(now) > 1:
                spec[name] = now[:1]
        elif len(was) == 2 and len(now) == 1 and now[0] == was[0]:
            text = f"must be 'SingleStack' to release the secondary {what}"
            causes.append(wrong("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], text))
    return causes


def _families_of_addresses(spec: Object) -> list[Cause]:
    causes = []
    for at, address in enumerate(spec.get("clusterIPs", [])):
        if address == "None":
            break
        family = _family(address)
        if at < len(spec.get("ipFamilies", [])):
            continue
        if family != _CONFIGURED:
            field = f"spec.clusterIPs[{at}]"
            causes.append(wrong(field, spec["clusterIPs"], f"{family} is not configured on this cluster"))
        else:
            spec.setdefault("ipFamilies", []).append(family)
    return causes


def _headless_families(spec: Object) -> list[Cause]:
    families = spec.setdefault("ipFamilies", [_CONFIGURED])
    if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
        families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    return []


def _configured_families(spec: Object) -> list[Cause]:
    causes = []
    if spec["ipFamilyPolicy"] == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        causes.append(wrong("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], text))
    for at, family in enumerate(spec.setdefault("ipFamilies", [_CONFIGURED])):
        if family != _CONFIGURED:
            causes.append(wrong(f"spec.ipFamilies[{at}]", family, "not configured on this cluster"))
    return causes


def _family(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def address_causes(spec: Object) -> list[Cause]:
    """Causes for invalid addresses, families and family policies."""
    causes: list[Cause] = []
    first, found = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if found and not first:
        causes.append(wrong("spec.clusterIPs", found, "must be empty when `clusterIP` is not specified"))
    elif found and found[0] != first:
        causes.append(wrong("spec.clusterIPs", found, "first value must match `clusterIP`"))
    families = spec.get("ipFamilies", [])
    for at, family in enumerate(families):
        causes += chosen(f"spec.ipFamilies[{at}]", family, _FAMILIES)
        if family in families[:at]:
            causes.append(duplicate(f"spec.ipFamilies[{at}]", family))
    if "ipFamilyPolicy" in spec:
        causes += chosen("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _POLICIES)
    unreadable = _unreadable(found)
    causes += unreadable
    if len(found) > 2:
        causes.append(wrong("spec.clusterIPs", found, "may only hold up to 2 values"))
    if unreadable:
        return causes
    if len(found) > 1 and len({_family(one) for one in found}) < 2:
        text = "may specify no more than one IP for each IP family"
        causes.append(wrong("spec.clusterIPs", found, text))
    for at, (address, family) in enumerate(zip(found, families, strict=False)):
        if address != "None" and family in _FAMILIES and family != _family(address):
            text = f"expected an {family} value as indicated by `ipFamilies[{at}]`"
            causes.append(wrong(f"spec.clusterIPs[{at}]", address, text))
    return causes


def _unreadable(addresses: list[str]) -> list[Cause]:
    if addresses[:1] == ["None"] and len(addresses) > 1:
        return [wrong("spec.clusterIPs", addresses, "'None' must be the first and only value")]
    causes = []
    for at, one in enumerate(addresses):
        if one == "None" and at == 0:
            continue
        try:
            ipaddress.ip_address(one)
        except ValueError:
            causes.append(wrong(f"spec.clusterIPs[{at}]", one, _ADDRESS))
    return causes


def allocate_address(spec: Object, used: set[str]) -> list[Cause]:
    """Gives the Service the address that it asks for, or one that is free."""
    wanted = spec.get("clusterIP", "")
    if wanted == "None":
        return []
    if wanted:
        if ipaddress.ip_address(wanted) not in RANGE:
            why = f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {RANGE}"
            text = f"failed to allocate IP {wanted}: {why}"
            return [wrong("spec.clusterIPs", [wanted], text)]
        if wanted in used:
            text = f"failed to allocate IP {wanted}: provided IP is already allocated"
            return [wrong("spec.clusterIPs", [wanted], text)]
        return []
    if len(used) >= RANGE.num_addresses - _KEPT_ADDRESSES:
        raise internal("failed to allocate a serviceIP: range is full")
    while True:
        address = str(RANGE[random.randint(_KEPT_ADDRESSES - 1, RANGE.num_addresses - 2)])  # noqa: S311 - an address, not a secret
        if address not in used:
            spec["clusterIP"], spec["clusterIPs"] = address, [address]
            return []
