"""A pod's volumes as directories of this machine: made, filled and kept current."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_runtime.api.meta.object import Key
from gpu_runtime.api.meta.quantity import Quantity
from gpu_runtime.kube.client import Client
from gpu_runtime.kube.errors import NotFound
from gpu_runtime.local.kinds.pods import Pod
from gpu_runtime.local.kinds.storage import CLAIMS, CONFIG_MAPS, SECRETS, VOLUMES, PersistentVolume
from gpu_runtime.local.kinds.volume import (
    ClaimSource,
    ConfigMapSource,
    DownwardSource,
    HostPath,
    KeyToPath,
    ProjectedSource,
    SecretSource,
    Volume,
)
from gpu_runtime.local.node.agent import environment
from gpu_runtime.local.node.shim import documents

VOLUMES_FOLDER = "volumes"  # of the data directory: where the volume controller makes a folder for each claim


class NotReady(Exception):
    """A volume cannot be provided yet; the message is for the pod's events."""


@dataclass(frozen=True)
class Projected:
    """One file of a volume that is made of API objects."""

    content: bytes
    mode: int


@dataclass(frozen=True)
class Place:
    """Where a volume lies on this machine. `of_machine`: it was not made for pods, so it may hold hidden paths."""

    path: Path
    readOnly: bool = False
    of_machine: bool = False


def memory_volumes(pod: Pod) -> dict[str, int]:
    """The volumes that the pod's shim keeps in memory, with their bounds."""
    found = {}
    for volume in pod.spec.volumes:
        if volume.emptyDir and volume.emptyDir.medium == "Memory":
            limit = volume.emptyDir.sizeLimit
            found[volume.name] = Quantity.parse(limit).value if limit else 0
    return found


def refreshed(pod: Pod) -> bool:
    """Whether the pod has volumes whose content can change while it runs."""
    return any(volume.configMap or volume.secret or volume.projected for volume in pod.spec.volumes)


class Volumes:
    """Provides the volumes of pods. Refuses a hostPath for which `hides` is true."""

    def __init__(self, client: Client, data_dir: Path, hides: Callable[[Path], bool]) -> None:
        self._client, self._data_dir, self._hides = client, data_dir, hides

    async def provide(self, pod: Pod, folder: Path, pod_ip: str, host_ip: str) -> dict[str, Place]:
        """The place of every volume, with current content. NotReady names the first that cannot be provided."""
        places = {}
        for volume in pod.spec.volumes:
            try:
                places[volume.name] = await self._provide(pod, volume, folder / volume.name, (pod_ip, host_ip))
            except (NotReady, environment.ConfigError) as error:
                raise NotReady(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error
        return places

    async def _provide(self, pod: Pod, volume: Volume, path: Path, addresses: tuple[str, str]) -> Place:
        if volume.persistentVolumeClaim:
            return await self._claim(pod, volume.persistentVolumeClaim)
        if volume.hostPath:
            return Place(_host_path(volume.hostPath, self._hides), of_machine=True)
        if volume.emptyDir:
            _empty_directory(path, pod.spec.securityContext.fsGroup)
            return Place(path)
        files = await self._files(pod, volume, addresses)
        project(path, files, pod.spec.securityContext.fsGroup)
        return Place(path, readOnly=True)

    async def _claim(self, pod: Pod, source: ClaimSource) -> Place:
        try:
            claim = await self._client.get(CLAIMS, Key(pod.metadata.namespace, source.claimName))
        except NotFound:
            raise NotReady(f'persistentvolumeclaim "{source.claimName}" not found') from None
        if not claim.spec.volumeName:
            raise NotReady(f'persistentvolumeclaim "{source.claimName}" is not bound')
        try:
            bound = await self._client.get(VOLUMES, Key("", claim.spec.volumeName))
        except NotFound:
            raise NotReady(f'persistentvolume "{claim.spec.volumeName}" not found') from None
        return self._persistent(bound, source.readOnly, pod.spec.securityContext.fsGroup)

    def _persistent(self, volume: PersistentVolume, read_only: bool, group: int | None) -> Place:
        """A local volume, or a folder that was made for its claim, is given to `group`; a hostPath keeps its owner."""
        where = volume.spec.local or volume.spec.hostPath
        if where is None:
            raise NotReady(f'persistentvolume "{volume.metadata.name}" is not on this machine')
        path = Path(where.path)
        if path.resolve() == self._data_dir / VOLUMES_FOLDER / volume.metadata.name:
            path.mkdir(parents=True, exist_ok=True)
            give_to_group(path, group)
            return Place(path, read_only)
        found = _host_path(HostPath(path=where.path, type=where.type or "DirectoryOrCreate"), self._hides)
        if volume.spec.local:
            give_to_group(found, group)
        return Place(found, read_only, of_machine=True)

    async def _files(self, pod: Pod, volume: Volume, addresses: tuple[str, str]) -> dict[str, Projected]:
        if volume.configMap:
            return await self._config_map(pod, volume.configMap, volume.configMap.defaultMode)
        if volume.secret:
            return await self._secret(pod, volume.secret, volume.secret.defaultMode)
        if volume.downwardAPI:
            return downward(pod, volume.downwardAPI, volume.downwardAPI.defaultMode, addresses)
        if volume.projected:
            return await self._parts(pod, volume.projected, addresses)
        raise NotReady("this kind of volume is not supported on this node")

    async def _parts(self, pod: Pod, source: ProjectedSource, addresses: tuple[str, str]) -> dict[str, Projected]:
        """All parts but tokens of service accounts, which the embedded API server does not issue."""
        files: dict[str, Projected] = {}
        for part in source.sources:
            if part.configMap:
                files.update(await self._config_map(pod, part.configMap, source.defaultMode))
            if part.secret:
                files.update(await self._secret(pod, part.secret, source.defaultMode))
            if part.downwardAPI:
                files.update(downward(pod, part.downwardAPI, source.defaultMode, addresses))
        return files

    async def _config_map(self, pod: Pod, source: ConfigMapSource, mode: int) -> dict[str, Projected]:
        try:
            found = await self._client.get(CONFIG_MAPS, Key(pod.metadata.namespace, source.name))
        except NotFound:
            if source.optional:
                return {}
            raise NotReady(f'configmap "{source.name}" not found') from None
        data = {key: value.encode() for key, value in found.data.items()} | found.binaryData
        return chosen(data, source.items, mode, optional=source.optional)

    async def _secret(self, pod: Pod, source: SecretSource, mode: int) -> dict[str, Projected]:
        name = source.secretName or source.name
        try:
            found = await self._client.get(SECRETS, Key(pod.metadata.namespace, name))
        except NotFound:
            if source.optional:
                return {}
            raise NotReady(f'secret "{name}" not found') from None
        return chosen(found.data, source.items, mode, optional=source.optional)


def chosen(data: Mapping[str, bytes], items: list[KeyToPath], mode: int, *, optional: bool) -> dict[str, Projected]:
    """All keys as files, or those that `items` names at the paths that it gives. Pure."""
    if not items:
        return {key: Projected(value, mode) for key, value in data.items()}
    files = {}
    for item in items:
        if item.key in data:
            files[item.path] = Projected(data[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise NotReady(f"references non-existent config key: {item.key}")
    return files


def downward(pod: Pod, source: DownwardSource, mode: int, addresses: tuple[str, str]) -> dict[str, Projected]:
    """The pod's own fields as files. Pure."""
    files = {}
    for item in source.items:
        text = ""
        if item.fieldRef:
            text = environment.field(pod, item.fieldRef.fieldPath, *addresses)
        elif item.resourceFieldRef:
            text = environment.resource_field(pod, pod.spec.containers[0], item.resourceFieldRef, {})
        files[item.path] = Projected(text.encode(), mode if item.mode is None else item.mode)
    return files


def project(folder: Path, files: Mapping[str, Projected], group: int | None) -> None:
    """Makes `folder` hold exactly these files; each changes as a whole, and one that is unchanged is not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {folder / name: file for name, file in files.items() if _stays_inside(name)}
    for path, file in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != file.content:
            documents.write_bytes(str(path), file.content)
        path.chmod(file.mode | (0o040 if group is not None else 0))
        if group is not None:
            os.chown(path, -1, group)
    for path in list(folder.rglob("*")):
        if path.is_file() and path not in wanted:
            path.unlink()


def _stays_inside(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/")


def _host_path(source: HostPath, hides: Callable[[Path], bool]) -> Path:
    path = Path(source.path)
    if hides(path):
        raise NotReady(f"hostPath type check failed: {source.path} is not shown to pods")
    if source.type == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif source.type == "FileOrCreate":
        path.touch()
    if (
        not path.exists()
        or (source.type == "Directory" and not path.is_dir())
        or (source.type == "File" and not path.is_file())
    ):
        raise NotReady(f"hostPath type check failed: {source.path} is not a {(source.type or 'path').lower()}")
    return path


def _empty_directory(path: Path, group: int | None) -> None:
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(0o777)
        give_to_group(path, group)


def give_to_group(path: Path, group: int | None) -> None:
    """fsGroup: gives everything in the volume to the group, which may write; new files inherit the group.

    Works on descriptors: a pod that already uses the volume could replace a file by a link to a file of the machine.
    """
    if group is None or path.stat().st_gid == group:
        return
    for _, folders, files, here in os.fwalk(path, topdown=False):
        for name in (*folders, *files):
            _give_one(name, here, group)
    _give_one(str(path), None, group)


def _give_one(name: str, folder: int | None, group: int) -> None:
    try:
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:  # a pod has removed it
        return
    try:
        about = os.fstat(found)
        if not stat.S_ISLNK(about.st_mode):
            more = 0o2070 if stat.S_ISDIR(about.st_mode) else 0o060
            os.chown(f"/proc/self/fd/{found}", -1, group)
            os.chmod(f"/proc/self/fd/{found}", stat.S_IMODE(about.st_mode) | more)  # noqa: PTH101
    finally:
        os.close(found)
