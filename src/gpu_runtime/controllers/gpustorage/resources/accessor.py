"""The accessor of a storage: a pod that serves its files for reading, its Service, and who may reach it."""

from __future__ import annotations

from gpu_runtime.api.meta.names import derived
from gpu_runtime.api.meta.object import Key, ObjectMeta, controller_reference
from gpu_runtime.api.v1alpha1.gpustorage import GPUStorage
from gpu_runtime.api.v1alpha1.labels import GPU_STORAGE_APP, STORAGE, STORAGE_ACCESSOR
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.child_kinds import pod_template as pod
from gpu_runtime.controllers.child_kinds.network import (
    IngressRule,
    IpBlock,
    NetworkPolicy,
    NetworkPolicySpec,
    Peer,
    PolicyPort,
    Service,
    ServicePort,
    ServiceSpec,
)
from gpu_runtime.controllers.child_kinds.workloads import Deployment, DeploymentSpec, LabelSelector, Strategy
from gpu_runtime.controllers.labels import CONTROLLED_BY, child_labels
from gpu_runtime.controllers.product_kinds import GPU_STORAGES
from gpu_runtime.controllers.runtime_pod import all_tolerations

PORT = pod.ContainerPort(name="http", containerPort=5000)
FOLDER = "/data"
VOLUME = "data"
DRAIN_SECONDS = 5  # a unit that attaches waits for the accessor's pod: downloads that run longer are cut off
GRACE_SECONDS = 10
PROXY = {"app.kubernetes.io/name": "gpu-runtime", "app.kubernetes.io/component": "proxy"}
NAMESPACE_NAME = "kubernetes.io/metadata.name"


def accessor_key(storage: GPUStorage) -> Key:
    """Derived from the UID: a unit may have the name of this storage, and its Deployment has the name of the unit."""
    return Key(storage.metadata.namespace, derived("files", storage.metadata.uid))


def path(storage: GPUStorage) -> str:
    """The path of the files on the proxy, without a trailing slash."""
    return f"/storages/{storage.metadata.namespace}/{storage.metadata.name}"


def access_url(storage: GPUStorage, settings: ControllerManagerSettings) -> str:
    """The URL where users read the files."""
    meta = storage.metadata
    return settings.storage.accessURL.format(name=meta.name, namespace=meta.namespace)


def selector(storage: GPUStorage) -> dict[str, str]:
    """Selects by UID: the Service must never reach a pod of an earlier storage with this name."""
    return {STORAGE_ACCESSOR: storage.metadata.name, CONTROLLED_BY: storage.metadata.uid}


def deployment(storage: GPUStorage, claim: str, settings: ControllerManagerSettings) -> Deployment:
    return Deployment(
        metadata=_meta(storage),
        spec=DeploymentSpec(
            replicas=1,
            selector=LabelSelector(matchLabels=selector(storage)),
            strategy=Strategy(type="Recreate"),  # on another node, a second pod could not mount the volume
            template=pod.PodTemplate(
                metadata=pod.TemplateMeta(labels={**_labels(storage), CONTROLLED_BY: storage.metadata.uid}),
                spec=_pod(storage, claim, settings),
            ),
            revisionHistoryLimit=2,
        ),
    )


def service(storage: GPUStorage) -> Service:
    port = ServicePort(name=PORT.name, port=PORT.containerPort, targetPort=PORT.containerPort)
    return Service(metadata=_meta(storage), spec=ServiceSpec(selector=selector(storage), ports=[port]))


def network_policy(storage: GPUStorage, settings: ControllerManagerSettings) -> NetworkPolicy:
    """Only the proxy reaches the accessor, and the accessor reaches nobody."""
    in_cluster = Peer(
        namespaceSelector=LabelSelector(matchLabels={NAMESPACE_NAME: settings.installNamespace}),
        podSelector=LabelSelector(matchLabels=PROXY),
    )
    outside = [Peer(ipBlock=IpBlock(cidr=cidr)) for cidr in settings.network.proxyCIDRs]
    return NetworkPolicy(
        metadata=_meta(storage),
        spec=NetworkPolicySpec(
            podSelector=LabelSelector(matchLabels=selector(storage)),
            policyTypes=["Ingress", "Egress"],
            ingress=[IngressRule(from_=[in_cluster, *outside], ports=[PolicyPort(port=PORT.containerPort)])],
        ),
    )


def _pod(storage: GPUStorage, claim: str, settings: ControllerManagerSettings) -> pod.PodSpec:
    return pod.PodSpec(
        containers=[_container(storage, settings)],
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        terminationGracePeriodSeconds=GRACE_SECONDS,
        tolerations=all_tolerations(settings.specs.values()),
        volumes=[
            pod.Volume(name=VOLUME, persistentVolumeClaim=pod.ClaimVolume(claimName=claim, readOnly=True)),
        ],
    )


def _container(storage: GPUStorage, settings: ControllerManagerSettings) -> pod.Container:
    address = ["--host", "0.0.0.0", "--port", str(PORT.containerPort)]  # noqa: S104  in the pod; see network_policy
    return pod.Container(
        name="files",
        image=settings.storage.image,
        imagePullPolicy="IfNotPresent",
        command=["gpu-runtime", "files", "serve", FOLDER],
        args=[*address, "--prefix", path(storage), "--drain-seconds", str(DRAIN_SECONDS)],
        ports=[PORT],
        resources=pod.Resources(requests={"cpu": "10m", "memory": "96Mi"}, limits={"cpu": "1", "memory": "256Mi"}),
        readinessProbe=pod.Probe(httpGet=pod.HttpGet(path="/healthz", port=PORT.containerPort), periodSeconds=2),
        securityContext=pod.ContainerSecurity(
            allowPrivilegeEscalation=False,
            seccompProfile=pod.SeccompProfile(type="RuntimeDefault"),
            # Units write files as any user. Root with this one capability reads them all; the mount is read-only.
            runAsUser=0,
            capabilities=pod.Capabilities(add=["DAC_OVERRIDE"], drop=["ALL"]),
            readOnlyRootFilesystem=True,
        ),
        volumeMounts=[pod.VolumeMount(name=VOLUME, mountPath=FOLDER, readOnly=True)],
        terminationMessagePolicy="FallbackToLogsOnError",
    )


def _labels(storage: GPUStorage) -> dict[str, str]:
    name = storage.metadata.name
    return {**child_labels(GPU_STORAGE_APP, STORAGE, name), STORAGE_ACCESSOR: name}


def _meta(storage: GPUStorage) -> ObjectMeta:
    key = accessor_key(storage)
    return ObjectMeta(
        name=key.name,
        namespace=key.namespace,
        labels=_labels(storage),
        ownerReferences=[controller_reference(GPU_STORAGES.api_version, GPU_STORAGES.kind, storage.metadata)],
    )
