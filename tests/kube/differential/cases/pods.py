"""What a pod must and may be; a Deployment's and a Job's template are checked by the same rules."""

from __future__ import annotations

from kube.differential.call import Case, Json, case, post
from kube.differential.objects import DEPLOYMENTS, PODS, container, deployment, pod


def one(title: str, /, **fields: Json) -> Case:
    """A pod of one container with these fields."""
    return case(title, post(PODS, pod(changes={"spec": {"containers": [container(**fields)]}})))


def spec(title: str, /, **fields: Json) -> Case:
    return case(title, post(PODS, pod(changes={"spec": fields})))


def templated(title: str, /, **fields: Json) -> Case:
    """A Deployment whose template has these fields."""
    return case(title, post(DEPLOYMENTS, deployment(changes={"spec": {"template": {"spec": fields}}})))


def requesting(name: str, requests: Json = None, limits: Json = None) -> Case:
    given = {"requests": requests, "limits": limits}
    return one(name, resources={key: value for key, value in given.items() if value is not None})


HTTP = {"httpGet": {"port": 8080}}
MOUNT = {"name": "v", "mountPath": "/v"}

CASES = [
    spec("a pod needs containers", containers=None),
    spec("an empty list of containers is refused", containers=[]),
    spec("containers that are no list are refused", containers={"name": "a"}),
    one("a container needs a name", name=None),
    one("a container name is a DNS label", name="A_b"),
    one("an image is required", image=""),
    one("an image with spaces is refused", image=" busybox"),
    one("an image without a tag is always pulled", image="busybox"),
    one("an image with tag latest is always pulled", image="busybox:latest"),
    one("an image by digest is pulled if absent", image="busybox@sha256:" + "a" * 64),
    one("an unknown pull policy is refused", imagePullPolicy="Sometimes"),
    spec("two containers of one name are refused", containers=[container(), container()]),
    one("a command that is a string is refused", command="sh"),
    one("arguments are kept", command=["sh", "-c"], args=["echo $HOME"], workingDir="/tmp"),
    one("ports get a protocol", ports=[{"containerPort": 8080}]),
    one("a port out of range is refused", ports=[{"containerPort": 70000}]),
    one("a port of zero is refused", ports=[{"containerPort": 0}]),
    one("a port that is a string is refused", ports=[{"containerPort": "http"}]),
    one("an unknown protocol is refused", ports=[{"containerPort": 80, "protocol": "HTTP"}]),
    one("a port name that is too long is refused", ports=[{"containerPort": 80, "name": "a-very-long-port-name"}]),
    one("a port name with capitals is refused", ports=[{"containerPort": 80, "name": "HTTP"}]),
    one(
        "two ports of one name are refused",
        ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}],
    ),
    one("a port twice is accepted", ports=[{"containerPort": 80}, {"containerPort": 80}]),
    one("environment is kept", env=[{"name": "A", "value": "1"}, {"name": "B"}]),
    one("a variable needs a name", env=[{"value": "1"}]),
    one("a variable name with = is refused", env=[{"name": "a=b", "value": "1"}]),
    one("a variable that is a number is refused", env=[{"name": "A", "value": 1}]),
    one(
        "a variable may come from a field",
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    ),
    one(
        "a variable may not come from an unknown field",
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nonsense"}}}],
    ),
    one(
        "a variable may come from a secret",
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    ),
    one(
        "a variable has one source only",
        env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    ),
    one("variables may come from a config map", envFrom=[{"configMapRef": {"name": "c"}}]),
    requesting("requests are canonical", {"cpu": "0.5", "memory": "1024Mi"}, {"cpu": "1000m", "memory": "2Gi"}),
    requesting("limits alone become requests", None, {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}),
    requesting("a request above its limit is refused", {"cpu": "2"}, {"cpu": "1"}),
    requesting("a GPU request without a limit is refused", {"nvidia.com/gpu": "1"}),
    requesting("a GPU request must equal its limit", {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}),
    requesting("half a GPU is refused", None, {"nvidia.com/gpu": "500m"}),
    requesting("a negative request is refused", {"memory": "-1Gi"}),
    requesting("a request that is no quantity is refused", {"memory": "lots"}),
    requesting("a request may be a number", {"cpu": 2, "memory": 1000}),
    requesting("a request with a fraction is rounded", {"cpu": "0.0001", "memory": "1.5Gi"}),
    requesting("an unknown resource name is refused", {"nonsense": "1"}),
    requesting("a quantity with an exponent is kept", {"memory": "1e9", "cpu": "2E0"}),
    requesting("a memory request in milli units warns", {"memory": "100m"}),
    one(
        "a probe gets defaults",
        readinessProbe=HTTP,
        livenessProbe={"tcpSocket": {"port": "http"}},
        startupProbe={"exec": {"command": ["true"]}},
    ),
    one("a probe needs a handler", readinessProbe={"periodSeconds": 5}),
    one("a probe has one handler", readinessProbe={**HTTP, "tcpSocket": {"port": 80}}),
    one("a probe port out of range is refused", readinessProbe={"httpGet": {"port": 0}}),
    one("a probe port name is checked", readinessProbe={"httpGet": {"port": "NOT A PORT"}}),
    one("a negative probe period is refused", readinessProbe={**HTTP, "periodSeconds": -1}),
    one("a liveness probe succeeds at once", livenessProbe={**HTTP, "successThreshold": 2}),
    one("a lifecycle hook is kept", lifecycle={"preStop": {"exec": {"command": ["sleep", "1"]}}}),
    one(
        "a security context is kept",
        securityContext={
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    ),
    one("privileged needs escalation", securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
    one("a negative user is refused", securityContext={"runAsUser": -1}),
    one("a mount needs its volume", volumeMounts=[MOUNT]),
    spec(
        "a mount has its volume",
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
        containers=[container(volumeMounts=[MOUNT])],
    ),
    spec(
        "two mounts at one path are refused",
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=[container(volumeMounts=[MOUNT, MOUNT])],
    ),
    spec(
        "a mount needs a path",
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=[container(volumeMounts=[{"name": "v"}])],
    ),
    spec(
        "a mount subPath may not climb",
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=[container(volumeMounts=[{**MOUNT, "subPath": "../x"}])],
    ),
    spec("a volume needs a source or is an emptyDir", volumes=[{"name": "v"}]),
    spec("a volume has one source", volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
    spec("two volumes of one name are refused", volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
    spec("a volume name is a DNS label", volumes=[{"name": "V_1", "emptyDir": {}}]),
    spec("a volume from a claim needs its name", volumes=[{"name": "v", "persistentVolumeClaim": {}}]),
    spec(
        "a volume from a claim is kept",
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}],
    ),
    spec(
        "a volume from a config map gets a mode",
        volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}}],
    ),
    spec(
        "a volume from a secret gets a mode", volumes=[{"name": "v", "secret": {"secretName": "s", "defaultMode": 256}}]
    ),
    spec(
        "a volume from the host is kept", volumes=[{"name": "v", "hostPath": {"path": "/dev/shm", "type": "Directory"}}]
    ),
    spec("a volume path that climbs is refused", volumes=[{"name": "v", "hostPath": {"path": "/a/../b"}}]),
    spec(
        "a projected volume is kept",
        volumes=[
            {
                "name": "v",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "c"}},
                        {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                    ]
                },
            }
        ],
    ),
    spec("an init container is kept", initContainers=[container(name="before")]),
    spec("an init container may not share a name", initContainers=[container()]),
    spec(
        "an init container restarts always as a sidecar",
        initContainers=[container(name="before", restartPolicy="Always")],
    ),
    spec("an init container has no readiness probe", initContainers=[container(name="before", readinessProbe=HTTP)]),
    spec("an unknown restart policy is refused", restartPolicy="Maybe"),
    spec("an unknown DNS policy is refused", dnsPolicy="Maybe"),
    spec("a negative grace is refused or read as one", terminationGracePeriodSeconds=-5),
    spec("a deadline of zero is refused", activeDeadlineSeconds=0),
    spec("a grace that is a string is refused", terminationGracePeriodSeconds="5"),
    spec("a grace with a fraction is refused", terminationGracePeriodSeconds=1.5),
    spec("a node selector is kept", nodeSelector={"gpu": "h200"}),
    spec("a node selector is checked", nodeSelector={"gpu type": "h200"}),
    spec("a node name is checked", nodeName="NOT A NODE"),
    spec(
        "tolerations are kept before the default ones",
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    ),
    spec("a toleration of everything gets no default ones", tolerations=[{"operator": "Exists"}]),
    spec("an unknown toleration operator is refused", tolerations=[{"key": "a", "operator": "Maybe"}]),
    spec(
        "an unknown toleration effect is refused", tolerations=[{"key": "a", "operator": "Exists", "effect": "Maybe"}]
    ),
    spec("a toleration that exists has no value", tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
    spec(
        "toleration seconds need NoExecute",
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}],
    ),
    spec(
        "node affinity is kept",
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                    }
                ]
            }
        },
    ),
    spec(
        "a weight over 100 is refused",
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 101, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                ]
            }
        },
    ),
    spec(
        "required node affinity needs a term",
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    ),
    spec(
        "an unknown affinity operator is refused",
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}]
                }
            }
        },
    ),
    spec(
        "pod anti-affinity needs a topology key",
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": ""}
                ]
            }
        },
    ),
    spec(
        "a security context of a pod is kept",
        securityContext={"runAsNonRoot": True, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
    ),
    spec("an unknown seccomp profile is refused", securityContext={"seccompProfile": {"type": "Maybe"}}),
    spec("pull secrets are kept", imagePullSecrets=[{"name": "a"}]),
    spec("a hostname is checked", hostname="Not_A_Host"),
    spec("service links may be left out", enableServiceLinks=False),
    spec("another scheduler may be named", schedulerName="mine"),
    spec("a runtime class that is not there is refused", runtimeClassName="absent"),
    spec("a priority class that is not there is refused", priorityClassName="absent"),
    spec("a service account that is not there is refused", serviceAccountName="absent"),
    spec("host network sets host ports", hostNetwork=True, containers=[container(ports=[{"containerPort": 80}])]),
    spec("a scheduling gate is kept", schedulingGates=[{"name": "example.com/wait"}]),
    spec(
        "a topology spread is kept",
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
    ),
    spec("overhead in requests of a pod is kept", resources={"requests": {"cpu": "1"}}),
    spec("the old service account field is filled", serviceAccount="default"),
    case(
        "guaranteed pods are known",
        post(
            PODS,
            pod(changes={"spec": {"containers": [container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})]}}),
        ),
    ),
    case("best effort pods are known", post(PODS, pod())),
    case(
        "burstable pods are known",
        post(PODS, pod(changes={"spec": {"containers": [container(resources={"requests": {"cpu": "1"}})]}})),
    ),
    case("a pod spec is required", post(PODS, pod(changes={"spec": None}))),
    case(
        "a token is mounted unless it is refused",
        post(PODS, pod(changes={"spec": {"automountServiceAccountToken": None}})),
    ),
    templated("a template is checked like a pod", containers=[]),
    templated("a template must restart always", restartPolicy="Never"),
    templated("a template has no deadline", activeDeadlineSeconds=5),
    templated(
        "a template names its faults from the top",
        containers=[container(ports=[{"containerPort": 0}])],
        dnsPolicy="Maybe",
    ),
    templated(
        "a template is filled with defaults",
        containers=[container(readinessProbe={"tcpSocket": {"port": 80}}, ports=[{"containerPort": 80}])],
        volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "c", "configMap": {"name": "c"}}],
    ),
]
