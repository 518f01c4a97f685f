"""Validates the containers of a pod."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import Cause, disallowed, duplicate, required, unsupported, wrong
from gpu_runtime.local.apiserver.names import config_key, dns_label, port_name, qualified_name
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.strategies.resources import resource_causes
from gpu_runtime.local.apiserver.strategies.seccomp import seccomp_causes

_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_PORT_RANGE = "must be between 1 and 65535, inclusive"
_NOT_NEGATIVE = "must be greater than or equal to 0"


def container_causes(spec: Object, volumes: dict[str, Object], field: str) -> list[Cause]:
    """All containers of a pod."""
    causes: list[Cause] = []
    main = spec.get("containers") or []
    if not main:
        causes.append(required(f"{field}.containers"))
    seen: set[str] = set()
    for at, container in enumerate(main):
        inside = f"{field}.containers[{at}]"
        causes += _container(container, volumes, inside)
        causes += _unique(container, seen, inside)
        if container.get("restartPolicy"):
            causes.append(disallowed(f"{inside}.restartPolicy", "may not be set for non-init containers"))
    for at, container in enumerate(spec.get("initContainers") or []):
        inside = f"{field}.initContainers[{at}]"
        causes += _container(container, volumes, inside)
        causes += _unique(container, seen, inside)
        causes += _init_container(container, inside)
    return causes


def _unique(container: Object, seen: set[str], field: str) -> list[Cause]:
    name = container.get("name", "")
    if name and name in seen:
        return [duplicate(f"{field}.name", name)]
    seen.add(name)
    return []


def _init_container(container: Object, field: str) -> list[Cause]:
    policy = container.get("restartPolicy")
    if policy == "Always":
        return []
    causes = []
    if policy is not None:
        causes.append(unsupported(f"{field}.restartPolicy", policy, ["Always"]))
    for name in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        if name in container:
            text = "may not be set for init containers without restartPolicy=Always"
            causes.append(disallowed(f"{field}.{name}", text))
    return causes


def _container(container: Object, volumes: dict[str, Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{field}.name"))
    else:
        causes += [wrong(f"{field}.name", name, message) for message in dns_label(name)]
    image = container.get("image", "")
    if not image:
        causes.append(required(f"{field}.image"))
    elif image != image.strip():
        causes.append(wrong(f"{field}.image", image, "must not have leading or trailing whitespace"))
    causes += _ports(container.get("ports", []), f"{field}.ports")
    causes += _env(container, field)
    causes += _mounts(container.get("volumeMounts", []), volumes, f"{field}.volumeMounts")
    causes += resource_causes(container.get("resources") or {}, f"{field}.resources")
    causes += _lifecycle(container.get("lifecycle") or {}, f"{field}.lifecycle")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe) is not None:
            causes += _probe(container[probe], f"{field}.{probe}", once=probe != "readinessProbe")
    return causes + _security(container.get("securityContext") or {}, f"{field}.securityContext")


def _ports(ports: list[Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for at, port in enumerate(ports):
        inside = f"{field}[{at}]"
        name = port.get("name", "")
        if name:
            if messages := port_name(name):
                causes += [wrong(f"{inside}.name", name, message) for message in messages]
            elif name in names:
                causes.append(duplicate(f"{inside}.name", name))
            names.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            causes.append(required(f"{inside}.containerPort"))
        elif not 1 <= number <= 65535:
            causes.append(wrong(f"{inside}.containerPort", number, _PORT_RANGE))
        host = port.get("hostPort", 0)
        if host and not 1 <= host <= 65535:
            causes.append(wrong(f"{inside}.hostPort", host, _PORT_RANGE))
    return causes


def _env(container: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for at, variable in enumerate(container.get("env", [])):
        inside = f"{field}.env[{at}]"
        name = variable.get("name", "")
        if not name:
            causes.append(required(f"{inside}.name"))
        elif "=" in name or not name.isprintable():
            text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            causes.append(wrong(f"{inside}.name", name, text))
        if variable.get("valueFrom") is not None:
            causes += _env_source(variable, f"{inside}.valueFrom")
    for at, source in enumerate(container.get("envFrom", [])):
        inside = f"{field}.envFrom[{at}]"
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        if not given:
            causes.append(wrong(inside, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            causes.append(wrong(inside, "", "may not have more than one field specified at a time"))
        causes += [required(f"{inside}.{name}.name") for name in given if not source[name].get("name")]
    return causes


def _env_source(variable: Object, field: str) -> list[Cause]:
    source = variable["valueFrom"]
    causes: list[Cause] = []
    if "fieldRef" in source:
        causes += _field_reference(source["fieldRef"], f"{field}.fieldRef")
    if "resourceFieldRef" in source and not source["resourceFieldRef"].get("resource"):
        causes.append(required(f"{field}.resourceFieldRef.resource"))
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            inside = f"{field}.{name}"
            if not source[name].get("name"):
                causes.append(required(f"{inside}.name"))
            key = source[name].get("key", "")
            if not key:
                causes.append(required(f"{inside}.key"))
            else:
                causes += [wrong(f"{inside}.key", key, message) for message in config_key(key)]
    if not source:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        causes.append(wrong(field, "", text))
    elif variable.get("value"):
        causes.append(wrong(field, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        causes.append(wrong(field, "", "may not have more than one field specified at a time"))
    return causes


def _field_reference(reference: Object, field: str) -> list[Cause]:
    path = reference.get("fieldPath", "")
    if not path:
        return [required(f"{field}.fieldPath")]
    if path.startswith(("metadata.labels['", "metadata.annotations['")) and path.endswith("']"):
        key = path.split("'")[1]
        return [wrong(field, path, message) for message in qualified_name(key.lower())]
    if path in ("metadata.labels", "metadata.annotations") or path in _ENV_FIELDS:
        if path in _ENV_FIELDS:
            return []
        return [unsupported(f"{field}.fieldPath", path, sorted(_ENV_FIELDS))]
    return [wrong(f"{field}.fieldPath", path, "error converting fieldPath: field label not supported")]


def _mounts(mounts: list[Object], volumes: dict[str, Object], field: str) -> list[Cause]:
    causes: list[Cause] = []
    paths: set[str] = set()
    for at, mount in enumerate(mounts):
        inside = f"{field}[{at}]"
        name, path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{inside}.name"))
        elif name not in volumes:
            causes.append(Cause("FieldValueNotFound", f'Not found: "{name}"', f"{inside}.name"))
        if not path:
            causes.append(required(f"{inside}.mountPath"))
        if path and path in paths:
            causes.append(wrong(f"{inside}.mountPath", path, "must be unique"))
        paths.add(path)
        for part in ("subPath", "subPathExpr"):
            # The real server leaves the index out of this field.
            causes += _sub_path(mount.get(part, ""), f"{field}.{part}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            causes.append(
                wrong(f"{inside}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive")
            )
    return causes


def _sub_path(path: str, field: str) -> list[Cause]:
    if path.startswith("/"):
        return [wrong(field, path, "must be a relative path")]
    return [wrong(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def _lifecycle(lifecycle: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            causes += _handler(lifecycle[name], f"{field}.{name}", ("exec", "httpGet", "tcpSocket", "sleep"))
    return causes


def _handler(handler: Object, field: str, kinds: tuple[str, ...]) -> list[Cause]:
    causes: list[Cause] = []
    given = [name for name in kinds if handler.get(name) is not None]
    causes += [disallowed(f"{field}.{name}", "may not specify more than 1 handler type") for name in given[1:]]
    if not given:
        return [required(field, "must specify a handler type")]
    first = given[0]
    action = handler[first]
    inside = f"{field}.{first}"
    if first == "exec" and not action.get("command"):
        causes.append(required(f"{inside}.command"))
    if first in ("httpGet", "tcpSocket"):
        causes += _port_or_name(action.get("port", 0), f"{inside}.port")
    if first == "grpc" and not 1 <= action.get("port", 0) <= 65535:
        causes.append(wrong(f"{inside}.port", action.get("port", 0), _PORT_RANGE))
    return causes


def _port_or_name(port: int | str, field: str) -> list[Cause]:
    if isinstance(port, str):
        return [wrong(field, port, message) for message in port_name(port)]
    return [] if 1 <= port <= 65535 else [wrong(field, port, _PORT_RANGE)]


def _probe(probe: Object, field: str, *, once: bool) -> list[Cause]:
    causes = _handler(probe, field, ("exec", "httpGet", "tcpSocket", "grpc"))
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if probe.get(name, 0) < 0:
            causes.append(wrong(f"{field}.{name}", probe[name], _NOT_NEGATIVE))
    if once and probe.get("successThreshold", 1) != 1:
        causes.append(wrong(f"{field}.successThreshold", probe["successThreshold"], "must be 1"))
    return causes


def _security(context: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    causes += id_causes(context, ("runAsUser", "runAsGroup"), field)
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        causes.append(wrong(field, context, text))
    return causes + seccomp_causes(context.get("seccompProfile"), f"{field}.seccompProfile")


def id_causes(context: Object, names: tuple[str, ...], field: str) -> list[Cause]:
    """Causes for user and group ids outside of Linux's range."""
    return [
        wrong(f"{field}.{name}", context[name], "must be between 0 and 2147483647, inclusive")
        for name in names
        if context.get(name) is not None and not 0 <= context[name] <= 2**31 - 1
    ]
