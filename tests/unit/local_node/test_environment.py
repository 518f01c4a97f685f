"""A container's variables, and what is said when they cannot be had."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.local.kinds.container import (
    CapabilityChange,
    Container,
    ContainerPort,
    EnvFrom,
    EnvSource,
    EnvVar,
    FieldRef,
    KeyRef,
    PodSecurityContext,
    Probe,
    ResourceFieldRef,
    Resources,
    SecurityContext,
    TcpSocket,
    VolumeMount,
)
from gpu_runtime.local.kinds.pods import Pod, PodMeta, PodSpec
from gpu_runtime.local.kinds.services import Service, ServicePort, ServiceSpec
from gpu_runtime.local.kinds.storage import ConfigMap, Secret
from gpu_runtime.local.node.agent.container_spec import container_spec, gpu_counts, sandbox_spec
from gpu_runtime.local.node.agent.environment import ConfigError, NoCommand, command, variables


def a_pod(*containers: Container, **spec: object) -> Pod:
    meta = PodMeta(name="p", namespace="n", uid="u", labels={"app": "web"}, annotations={"note": 'a "b"'})
    return Pod(metadata=meta, spec=PodSpec(containers=list(containers), nodeName="node", **spec))  # type: ignore[arg-type]


def resolved(
    container: Container,
    config_maps: Mapping[str, ConfigMap] | None = None,
    secrets: Mapping[str, Secret] | None = None,
    services: list[Service] | None = None,
) -> dict[str, str]:
    return variables(
        a_pod(container),
        container,
        config_maps=config_maps or {},
        secrets=secrets or {},
        services=services or [],
        pod_ip="10.0.0.2",
        host_ip="10.0.0.1",
        allocatable={"cpu": "4", "memory": "8Gi"},
    )


def from_source(**source: object) -> Container:
    return Container(name="c", env=[EnvVar(name="V", valueFrom=EnvSource(**source))])  # type: ignore[arg-type]


FIELDS = {
    "metadata.name": "p",
    "metadata.namespace": "n",
    "metadata.uid": "u",
    "metadata.labels['app']": "web",
    "metadata.annotations['note']": 'a "b"',
    "metadata.annotations": 'note="a \\"b\\""',
    "spec.nodeName": "node",
    "spec.serviceAccountName": "default",
    "status.podIP": "10.0.0.2",
    "status.hostIP": "10.0.0.1",
}


@pytest.mark.parametrize(("path", "want"), FIELDS.items())
def test_fields_of_the_pod(path: str, want: str) -> None:
    assert resolved(from_source(fieldRef=FieldRef(fieldPath=path))) == {"V": want}


@pytest.mark.parametrize(
    ("resource", "divisor", "want"),
    [
        ("limits.memory", "1Mi", "512"),
        ("limits.cpu", "1m", "1500"),
        ("limits.cpu", "0", "2"),
        ("requests.memory", "1", "0"),
        ("limits.ephemeral-storage", "1", "0"),
    ],
)
def test_resources_in_units_rounded_up(resource: str, divisor: str, want: str) -> None:
    container = Container(
        name="c",
        resources=Resources(limits={"memory": "512Mi", "cpu": "1500m"}),
        env=[
            EnvVar(name="V", valueFrom=EnvSource(resourceFieldRef=ResourceFieldRef(resource=resource, divisor=divisor)))
        ],
    )
    assert resolved(container) == {"V": want}


def test_a_missing_limit_is_the_whole_node() -> None:
    assert resolved(from_source(resourceFieldRef=ResourceFieldRef(resource="limits.cpu"))) == {"V": "4"}


MAP = ConfigMap(metadata=ObjectMeta(name="map"), data={"a": "A"})
SECRET = Secret(metadata=ObjectMeta(name="secret"), data={"s": b"S"})
ERRORS = {
    "a missing config map": (from_source(configMapKeyRef=KeyRef(name="none", key="a")), 'configmap "none" not found'),
    "a missing key": (
        from_source(configMapKeyRef=KeyRef(name="map", key="x")),
        "couldn't find key x in ConfigMap n/map",
    ),
    "a missing secret": (from_source(secretKeyRef=KeyRef(name="none", key="a")), 'secret "none" not found'),
    "a missing secret key": (
        from_source(secretKeyRef=KeyRef(name="secret", key="x")),
        "couldn't find key x in Secret n/secret",
    ),
    "a missing source of many": (
        Container(name="c", envFrom=[EnvFrom(secretRef=KeyRef(name="none"))]),
        'secret "none" not found',
    ),
}


@pytest.mark.parametrize(("container", "words"), ERRORS.values(), ids=ERRORS)
def test_what_is_missing_is_named(container: Container, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolved(container, {"map": MAP}, {"secret": SECRET})
    assert str(error.value) == words


def test_what_is_optional_may_be_missing() -> None:
    for source in (
        {"configMapKeyRef": KeyRef(name="none", key="a", optional=True)},
        {"secretKeyRef": KeyRef(name="secret", key="x", optional=True)},
    ):
        assert resolved(from_source(**source), {"map": MAP}, {"secret": SECRET}) == {}


def test_later_variables_use_earlier_ones() -> None:
    container = Container(
        name="c",
        envFrom=[EnvFrom(prefix="M_", configMapRef=KeyRef(name="map"))],
        env=[EnvVar(name="B", value="$(M_a)b"), EnvVar(name="C", value="$(B)c $(D)"), EnvVar(name="D", value="d")],
    )
    assert resolved(container, {"map": MAP}) == {"M_a": "A", "B": "Ab", "C": "Abc $(D)", "D": "d"}


def test_services_are_announced_unless_they_are_headless() -> None:
    ports = [ServicePort(port=80, name="web-ui")]
    services = [
        Service(metadata=ObjectMeta(name="my-svc", namespace="n"), spec=ServiceSpec(clusterIP="10.1.1.1", ports=ports)),
        Service(metadata=ObjectMeta(name="head", namespace="n"), spec=ServiceSpec(clusterIP="None", ports=ports)),
    ]
    assert resolved(Container(name="c"), services=services) == {
        "MY_SVC_SERVICE_HOST": "10.1.1.1",
        "MY_SVC_SERVICE_PORT": "80",
        "MY_SVC_SERVICE_PORT_WEB_UI": "80",
    }


def test_a_container_without_a_command_has_nothing_to_run() -> None:
    with pytest.raises(NoCommand, match="no command specified: this machine is the image"):
        command(Container(name="c"), {})


def test_root_is_refused_where_it_is_not_wanted() -> None:
    container = Container(name="c", command=["x"], securityContext=SecurityContext(runAsNonRoot=True))
    with pytest.raises(ConfigError, match="runAsNonRoot and image will run as root"):
        container_spec(a_pod(container), container, 0, {}, {})
    allowed = Container(name="c", command=["x"], securityContext=SecurityContext(runAsNonRoot=True, runAsUser=5))
    assert container_spec(a_pod(allowed), allowed, 0, {}, {}).user == 5


def test_the_containers_own_security_settings_come_before_the_pods() -> None:
    shared = PodSecurityContext(runAsUser=1, runAsGroup=2, fsGroup=3, supplementalGroups=[4])
    drop = CapabilityChange(drop=["ALL"], add=["NET_BIND_SERVICE", "SYS_ADMIN"])
    container = Container(name="c", command=["x"], securityContext=SecurityContext(runAsUser=9, capabilities=drop))
    spec = container_spec(a_pod(container, securityContext=shared), container, 0, {}, {})
    assert (spec.user, spec.group, spec.groups) == (9, 2, [4, 3])
    assert spec.capabilities == (10,)  # what would reach outside the pod is not to be had


def test_a_mount_of_an_unknown_volume_is_named() -> None:
    container = Container(name="c", command=["x"], volumeMounts=[VolumeMount(name="none", mountPath="/v")])
    with pytest.raises(ConfigError, match='volume "none" is not defined'):
        container_spec(a_pod(container), container, 0, {}, {})


def test_a_sandbox_knows_declared_and_probed_ports_and_gpus() -> None:
    one = Container(
        name="one",
        ports=[ContainerPort(containerPort=80, name="web"), ContainerPort(containerPort=53, protocol="UDP")],
        readinessProbe=Probe(tcpSocket=TcpSocket(port=9090)),
        resources=Resources(limits={"nvidia.com/gpu": "2"}),
    )
    pod = a_pod(one, Container(name="two"))
    assert sandbox_spec(pod).ports == [80, 9090]
    assert gpu_counts(pod) == {"one": 2}
