"""Validates the volumes of a pod."""

from __future__ import annotations

from gpu_runtime.local.apiserver.errors import Cause, disallowed, duplicate, required, wrong
from gpu_runtime.local.apiserver.names import config_key, dns_label
from gpu_runtime.local.apiserver.records import Object


def volume_causes(volumes: list[Object], field: str) -> tuple[list[Cause], dict[str, Object]]:
    """Causes, and the volumes by name."""
    causes: list[Cause] = []
    known: dict[str, Object] = {}
    for at, volume in enumerate(volumes):
        inside = f"{field}[{at}]"
        name = volume.get("name", "")
        causes += _sources(volume, inside)
        if not name:
            causes.append(required(f"{inside}.name"))
        else:
            causes += [wrong(f"{inside}.name", name, message) for message in dns_label(name)]
        if name in known:
            causes.append(duplicate(f"{inside}.name", name))
        known[name] = volume
    return causes, known


def _sources(volume: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    found = [key for key in volume if key != "name"]
    if not found:
        return [required(field, "must specify a volume type")]
    order = list(_CHECKS)
    found.sort(key=lambda key: order.index(key) if key in order else len(order))
    causes += [disallowed(f"{field}.{extra}", "may not specify more than 1 volume type") for extra in found[1:]]
    first = found[0]
    check = _CHECKS.get(first)
    return causes + (check(volume[first], f"{field}.{first}") if check else [])


def _empty_dir(source: Object, field: str) -> list[Cause]:
    size = source.get("sizeLimit", "")
    if isinstance(size, str) and size.startswith("-"):
        return [disallowed(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def host_path_causes(source: Object, field: str) -> list[Cause]:
    path = source.get("path", "")
    if not path:
        return [required(f"{field}.path")]
    causes = []
    if ".." in path.split("/"):
        causes.append(wrong(f"{field}.path", path, "must not contain '..'"))
    return causes


def _mode(source: Object, field: str) -> list[Cause]:
    mode = source.get("defaultMode")
    if mode is not None and not 0 <= mode <= 0o777:
        text = "must be a number between 0 and 0777 (octal), both inclusive"
        return [wrong(f"{field}.defaultMode", mode, text)]
    return []


def _items(source: Object, field: str) -> list[Cause]:
    causes = []
    for at, item in enumerate(source.get("items", [])):
        inside = f"{field}.items[{at}]"
        if not item.get("key"):
            causes.append(required(f"{inside}.key"))
        else:
            causes += [wrong(f"{inside}.key", item["key"], message) for message in config_key(item["key"])]
        causes += _local_path(item.get("path", ""), f"{inside}.path")
        mode = item.get("mode")
        if mode is not None and not 0 <= mode <= 0o777:
            causes.append(wrong(f"{inside}.mode", mode, "must be a number between 0 and 0777 (octal), both inclusive"))
    return causes


def _local_path(path: str, field: str) -> list[Cause]:
    if not path:
        return [required(field)]
    if path.startswith("/"):
        return [wrong(field, path, "must be a relative path")]
    if ".." in path.split("/"):
        return [wrong(field, path, "must not contain '..'")]
    return []


def _secret(source: Object, field: str) -> list[Cause]:
    missing = [] if source.get("secretName") else [required(f"{field}.secretName")]
    return missing + _mode(source, field) + _items(source, field)


def _config_map(source: Object, field: str) -> list[Cause]:
    missing = [] if source.get("name") else [required(f"{field}.name")]
    return missing + _mode(source, field) + _items(source, field)


def _claim(source: Object, field: str) -> list[Cause]:
    return [] if source.get("claimName") else [required(f"{field}.claimName")]


def _projected(source: Object, field: str) -> list[Cause]:
    causes = _mode(source, field)
    for at, one in enumerate(source.get("sources", [])):
        inside = f"{field}.sources[{at}]"
        if len(one) > 1:
            causes.append(disallowed(inside, "may not specify more than 1 volume type per source"))
        for name in ("secret", "configMap"):
            if name in one:
                causes += [] if one[name].get("name") else [required(f"{inside}.{name}.name")]
                causes += _items(one[name], f"{inside}.{name}")
        if "serviceAccountToken" in one and not one["serviceAccountToken"].get("path"):
            causes.append(required(f"{inside}.serviceAccountToken.path"))
    return causes


_CHECKS = {
    "emptyDir": _empty_dir,
    "hostPath": host_path_causes,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "projected": _projected,
    "downwardAPI": _mode,
}
