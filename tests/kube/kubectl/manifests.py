"""The manifests that the scenarios apply."""

from __future__ import annotations

CONFIGMAP = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels: {app: web}
data:
  color: blue
"""

LIST = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: one
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata:
  name: two
stringData: {a: b}
"""

UNKNOWN_FIELD = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: unknown
nonsense: 1
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      automountServiceAccountToken: false
      containers:
      - name: main
        image: busybox:1.36
        ports:
        - containerPort: 8080
          name: http
        resources:
          limits: {cpu: 100m, memory: 64Mi}
"""
DEPLOYMENT_BLUE = DEPLOYMENT.replace("busybox:1.36", "busybox:blue")

STATUS_AVAILABLE = """
status:
  observedGeneration: ${generation}
  replicas: 3
  updatedReplicas: 3
  readyReplicas: 3
  availableReplicas: 3
  conditions:
  - {type: Available, status: "True", reason: MinimumReplicasAvailable, message: enough}
"""

REPLICA_SETS = "---".join(
    f"""
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-{revision}
  labels: {{app: web, pod-template-hash: "{revision}"}}
  annotations: {{deployment.kubernetes.io/revision: "{revision}"}}
  ownerReferences:
  - {{apiVersion: apps/v1, kind: Deployment, name: web, uid: "${{uid}}", controller: true}}
spec:
  replicas: 0
  selector:
    matchLabels: {{app: web, pod-template-hash: "{revision}"}}
  template:
    metadata:
      labels: {{app: web, pod-template-hash: "{revision}"}}
    spec:
      containers:
      - {{name: main, image: "busybox:{revision}"}}
"""
    for revision in (1, 2)
)

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: one
  labels: {app: one}
spec:
  automountServiceAccountToken: false
  nodeName: somewhere
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: busybox:1.36
    command: [sleep, "60"]
    env:
    - {name: COLOR, value: blue}
    readinessProbe:
      tcpSocket: {port: 8080}
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
  volumes:
  - name: scratch
    emptyDir: {}
"""

STATUS_POD = """
status:
  phase: Running
  podIP: 10.1.2.3
  startTime: "2020-01-01T00:00:00Z"
  conditions:
  - {type: Ready, status: "True"}
  containerStatuses:
  - name: main
    ready: true
    restartCount: 1
    image: busybox:1.36
    imageID: sha256:1
    state:
      running: {startedAt: "2020-01-01T00:00:00Z"}
"""

SERVICE = """
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: http}
"""

JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: once
spec:
  backoffLimit: 1
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: busybox:1.36, command: ["true"]}
"""

NODE = """
apiVersion: v1
kind: Node
metadata:
  name: ${ns}-n
  labels: {gpu: h200}
"""

WIDGET = """
apiVersion: differential.example.com/v1
kind: Widget
metadata:
  name: a
spec:
  size: 3
  zone: a
  ports:
  - {name: http, number: 80}
"""
