"""What a serverless worker adds to the pod of its unit: our container, which pulls invocations and calls the user's.

Both containers share a folder for the framework's socket, and the network. They share no processes, and only ours
mounts the broker's credentials.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as replace_fields

from gpu_runtime.api.v1alpha1.gpuunit import GPUUnit
from gpu_runtime.api.v1alpha1.serverless import (
    CREDENTIALS_KEY,
    HANDLER_KEY,
    SOCKET_DIRECTORY,
    Framework,
    HandlerSource,
    credentials_secret,
)
from gpu_runtime.api.v1alpha1.template import RuntimeTemplate
from gpu_runtime.api.v1alpha1.worker_pod import HANDLER_FOLDER, HEALTH_PORT
from gpu_runtime.config import ControllerManagerSettings
from gpu_runtime.controllers.child_kinds import pod_template as pod
from gpu_runtime.controllers.runtime_pod import Companion, RuntimePod
from gpu_runtime.serverless.framework.running import SOCKET_VARIABLE

CONTAINER = "serverless-worker"
SOCKETS, CREDENTIALS, HANDLER = "serverless-sockets", "serverless-credentials", "serverless-handler"
CREDENTIALS_FOLDER = "/etc/gpu-runtime/credentials"
CREDENTIALS_FILE = f"{CREDENTIALS_FOLDER}/{CREDENTIALS_KEY}"
HANDLER_FILE = f"{HANDLER_FOLDER}/{HANDLER_KEY}"
WORKER_USER, HANDLER_USER = 65532, 65534
SECCOMP = pod.SeccompProfile(type="RuntimeDefault")
# Both containers have one network. A program with NET_RAW could read what the worker sends to the broker.
USER_SECURITY = pod.ContainerSecurity(
    allowPrivilegeEscalation=False, seccompProfile=SECCOMP, capabilities=pod.Capabilities(drop=["NET_RAW"])
)
HANDLER_SECURITY = pod.ContainerSecurity(
    allowPrivilegeEscalation=False,
    seccompProfile=SECCOMP,
    runAsUser=HANDLER_USER,
    capabilities=pod.Capabilities(drop=["ALL"]),
)
WORKER_SECURITY = pod.ContainerSecurity(
    allowPrivilegeEscalation=False,
    seccompProfile=SECCOMP,
    runAsUser=WORKER_USER,
    capabilities=pod.Capabilities(drop=["ALL"]),
    readOnlyRootFilesystem=True,
)


def worker_pod(plain: RuntimePod, unit: GPUUnit, settings: ControllerManagerSettings) -> RuntimePod:
    """The unit's pod with a worker in it."""
    worker = replace(
        plain,
        environment={**plain.environment, SOCKET_VARIABLE: unit.spec.serverless.framework.socketPath},
        grace_seconds=grace_seconds(unit, settings),
        companion=companion(unit, settings),
        security=USER_SECURITY,
    )
    serverless = unit.spec.serverless
    if serverless.handler is None:
        return worker
    return replace(
        worker,
        image=settings.serverless.image,
        template=handler_template(plain.template, serverless.handler, serverless.framework),
        security=HANDLER_SECURITY,
    )


def grace_seconds(unit: GPUUnit, settings: ControllerManagerSettings) -> int:
    """How long the pod may finish its invocations after it was told to end."""
    return unit.spec.template.terminationGracePeriodSeconds or settings.serverless.terminationGracePeriodSeconds


def companion(unit: GPUUnit, settings: ControllerManagerSettings) -> Companion:
    """The worker beside the user's container."""
    handler = unit.spec.serverless.handler
    sockets = pod.VolumeMount(name=SOCKETS, mountPath=SOCKET_DIRECTORY)
    volumes = [pod.Volume(name=SOCKETS, emptyDir=pod.EmptyDir())]
    mounts = [sockets]
    ours = [sockets]
    if handler is not None:
        volumes.append(pod.Volume(name=HANDLER, configMap=pod.ConfigMapVolume(name=handler.configMapName)))
        mounts.append(pod.VolumeMount(name=HANDLER, mountPath=HANDLER_FOLDER, readOnly=True))
    if settings.serverless.brokerCredentials:
        secret = pod.SecretVolume(secretName=credentials_secret(unit.spec.serverless.requestID or ""))
        volumes.append(pod.Volume(name=CREDENTIALS, secret=secret))
        ours.append(pod.VolumeMount(name=CREDENTIALS, mountPath=CREDENTIALS_FOLDER, readOnly=True))
    return Companion(
        container=_worker(unit, settings, ours),
        volumes=volumes,
        mounts=mounts,
        # Kubernetes tells all containers at once to end. The user's is told when this request is answered: when the
        # worker has finished what runs.
        lifecycle=pod.Lifecycle(preStop=pod.Hook(httpGet=pod.HttpGet(path="/drained", port=HEALTH_PORT))),
    )


def handler_template(template: RuntimeTemplate, handler: HandlerSource, framework: Framework) -> RuntimeTemplate:
    """The template of a unit that runs a handler: the framework that calls its function."""
    source = ["--source", HANDLER_FILE, "--entry", handler.entry]
    where = ["--socket", framework.socketPath]
    return replace_fields(
        template, command=["python", "-m", "gpu_runtime.serverless.framework"], args=[*source, *where]
    )


def _worker(unit: GPUUnit, settings: ControllerManagerSettings, mounts: list[pod.VolumeMount]) -> pod.Container:
    return pod.Container(
        name=CONTAINER,
        image=settings.serverless.image,
        imagePullPolicy="IfNotPresent",
        command=["gpu-runtime", "worker"],
        env=[pod.Env(name=name, value=value) for name, value in _environment(unit, settings).items()],
        ports=[pod.ContainerPort(containerPort=HEALTH_PORT)],
        # Nothing is requested, so that the pod fits where the stock of its unit was. What the worker uses counts as
        # the node's overhead, up to the limit.
        resources=pod.Resources(
            requests={"cpu": "0", "memory": "0"}, limits={"memory": settings.serverless.workerMemory}
        ),
        readinessProbe=pod.Probe(httpGet=pod.HttpGet(path="/readyz", port=HEALTH_PORT), periodSeconds=2),
        securityContext=WORKER_SECURITY,
        volumeMounts=mounts,
        terminationMessagePolicy="FallbackToLogsOnError",
    )


def _environment(unit: GPUUnit, settings: ControllerManagerSettings) -> dict[str, str]:
    """The settings of the worker (config/worker.py)."""
    serverless, framework = unit.spec.serverless, unit.spec.serverless.framework
    given = {
        "NAMESPACE": unit.metadata.namespace,
        "FUNCTION": serverless.requestID or "",
        "NAME": unit.metadata.name,
        "CONCURRENCY": str(serverless.concurrency),
        "GRACE_SECONDS": str(grace_seconds(unit, settings)),
        "FRAMEWORK_SOCKET_PATH": framework.socketPath,
        "FRAMEWORK_INVOKE_PATH": framework.invokePath,
        "FRAMEWORK_HEALTH_PATH": framework.healthPath,
        "NATS_URL": settings.serverless.brokerURL,
        **({"NATS_CREDENTIALS_FILE": CREDENTIALS_FILE} if settings.serverless.brokerCredentials else {}),
        "HEALTH_HOST": "0.0.0.0",  # noqa: S104  the kubelet probes the pod's address
        "HEALTH_PORT": str(HEALTH_PORT),
    }
    return {f"GPU_RUNTIME_WORKER_{name}": value for name, value in given.items()}
