"""Services: addresses and their families."""

from __future__ import annotations

from kube.differential.call import Case, Json, case, merge, post, quietly
from kube.differential.objects import SERVICES, service


def made(name: str, **spec: Json) -> Case:
    return case(name, post(SERVICES, service(changes={"spec": spec})))


def changed(name: str, *changes: Json, **spec: Json) -> Case:
    """A Service that is made and then changed in several ways, none of which is kept."""
    steps = [merge(f"{SERVICES}/a", {"spec": change}, dryRun="All") for change in changes]
    return case(name, quietly(post(SERVICES, service(changes={"spec": spec}))), *steps)


UNNAMED = {"metadata": {"name": None}}

CASES = [
    made("a service of the family that is there", ipFamilies=["IPv4"]),
    made("a service of a family that is not there", ipFamilies=["IPv6"]),
    made("a service of two families", ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="RequireDualStack"),
    made("a service of two families on one stack", ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="SingleStack"),
    made("a service of one family twice", ipFamilies=["IPv4", "IPv4"]),
    made("a service of an unknown family", ipFamilies=["IPv5"]),
    made("a service of an empty family", ipFamilies=[""]),
    made("a service that would like two stacks", ipFamilyPolicy="PreferDualStack"),
    made("a service that needs two stacks", ipFamilyPolicy="RequireDualStack"),
    made("a service of an unknown policy of families", ipFamilyPolicy="Some"),
    made("a service of an empty policy of families", ipFamilyPolicy=""),
    made("a headless service without a selector", clusterIP="None", selector=None),
    made("a headless service without a selector on one stack", clusterIP="None", selector=None, ipFamilies=["IPv6"]),
    made("a headless service on one stack", clusterIP="None", selector=None, ipFamilyPolicy="SingleStack"),
    made("a headless service has one address", clusterIP="None", clusterIPs=["None", "10.96.9.9"]),
    made("addresses without the first of them", clusterIPs=["10.96.201.7"]),
    made("addresses that begin with another one", clusterIP="10.96.201.8", clusterIPs=["10.96.201.9"]),
    made("two addresses of one family", clusterIP="10.96.201.8", clusterIPs=["10.96.201.8", "10.96.201.9"]),
    made("an address of another family", clusterIP="fd00::1"),
    made("an address of another family than is asked for", clusterIP="fd00::1", ipFamilies=["IPv4"]),
    made("three addresses", clusterIP="10.96.201.8", clusterIPs=["10.96.201.8", "10.96.201.9", "fd00::1"]),
    made("an unknown policy of inner traffic", internalTrafficPolicy="Some"),
    made("an empty policy of inner traffic", internalTrafficPolicy=""),
    changed(
        "the families of a service stay",
        {"ipFamilies": ["IPv6"]},
        {"ipFamilies": [""]},
        {"ipFamilies": ["IPv4", "IPv6"]},
        {"ipFamilies": []},
        {"ipFamilyPolicy": "PreferDualStack"},
        {"ipFamilyPolicy": "RequireDualStack"},
        {"ipFamilyPolicy": ""},
        {"ipFamilyPolicy": None},
        {"internalTrafficPolicy": ""},
        {"internalTrafficPolicy": "Local"},
    ),
    changed(
        "a service keeps the address of which it says one half",
        {"clusterIP": None},
        {"clusterIPs": None},
        {"clusterIP": ""},
        {"clusterIP": "10.96.250.251"},
        {"clusterIPs": ["10.96.250.251"]},
        {"clusterIP": "None"},
    ),
    changed(
        "a headless service stays one", {"clusterIP": None}, {"clusterIP": ""}, {"selector": None}, clusterIP="None"
    ),
    changed("a service becomes a name", {"type": "ExternalName", "externalName": "example.com"}),
    changed("a name becomes a service", {"type": "ClusterIP"}, type="ExternalName", externalName="example.com"),
    case(
        "a service without a name is told so, after its address if it would be given one",
        post(SERVICES, service(changes=UNNAMED)),
        post(SERVICES, service(changes=UNNAMED), dryRun="All"),
        post(SERVICES, service(changes={**UNNAMED, "spec": {"clusterIP": "None"}}), dryRun="All"),
        post(SERVICES, service(changes={"metadata": {"name": None, "generateName": "g-"}}), dryRun="All"),
        post(SERVICES, service(changes={"metadata": {"name": None, "generateName": "G_"}}), dryRun="All"),
    ),
]
