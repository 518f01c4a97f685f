"""Accepts CustomResourceDefinitions, serves their kinds, and deletes the objects of deleted definitions."""

from __future__ import annotations

from gpu_runtime.local.apiserver.cluster import Cluster
from gpu_runtime.local.apiserver.custom.immutability import Unsupported
from gpu_runtime.local.apiserver.custom.kind import kinds_of
from gpu_runtime.local.apiserver.errors import Status
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.options import DeleteOptions, WriteOptions
from gpu_runtime.local.apiserver.records import Event, Object
from gpu_runtime.local.apiserver.reports import failed
from gpu_runtime.local.apiserver.strategies.definitions import CLEANUP, is_established, set_condition
from gpu_runtime.local.apiserver.writing import Change

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"


class Definitions:
    """Follows every committed change of a definition, right after its commit."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        kind = cluster.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert kind is not None
        self._kind: Kind = kind
        self._ending: dict[str, str] = {}
        """Resource of a definition under deletion -> name of the definition."""

    def start(self) -> None:
        """Serves the existing definitions and follows their changes."""
        for record in self._cluster.store.records(RESOURCE):
            self._follow(record.object())
        self._cluster.store.listen(self._committed)

    def _committed(self, event: Event) -> None:
        if event.resource == RESOURCE:
            if event.deleted:
                self._forget(event.record.object())
            else:
                self._follow(event.record.object())
        elif event.deleted and event.resource in self._ending:
            self._clean_up(self._ending[event.resource])

    def _follow(self, definition: Object) -> None:
        spec, name = definition["spec"], definition["metadata"]["name"]
        self._cluster.registry.remove(spec["group"], spec["names"]["plural"])
        try:
            # Serve the kind once its status is written: a client that sees it served can then write without a conflict.
            for kind in kinds_of(definition) if is_established(definition) else ():
                self._cluster.registry.add(kind)
        except (Unsupported, KeyError) as error:
            failed("definition cannot be served", name=name, error=str(error))
            return
        if definition["metadata"].get("deletionTimestamp"):
            self._ending[name] = name
            self._clean_up(name)
        else:
            self._accept(definition)

    def _forget(self, definition: Object) -> None:
        spec = definition["spec"]
        self._cluster.registry.remove(spec["group"], spec["names"]["plural"])
        self._ending.pop(definition["metadata"]["name"], None)

    def _accept(self, definition: Object) -> None:
        """Sets the conditions NamesAccepted and Established."""
        now = self._cluster.environment.timestamp()

        def change(found: Object) -> Object:
            found["status"]["acceptedNames"] = found["spec"]["names"]
            set_condition(found, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
            text = "the initial names have been accepted"
            set_condition(found, "Established", "True", "InitialNamesAccepted", text, now)
            return found

        self._write(definition["metadata"]["name"], change, "status")

    def _clean_up(self, name: str) -> None:
        """Deletes the objects of a definition under deletion. When none is left, deletes the definition."""
        store = self._cluster.store
        left = False
        kind = next((one for one in self._cluster.registry if one.custom and one.resource == name), None)
        for record in list(store.all_current(name)):
            left = True
            namespace, _, key = record.key.rpartition("/")
            if kind is not None and not record.object()["metadata"].get("deletionTimestamp"):
                self._cluster.deleter.delete(kind, namespace, key, DeleteOptions())
        if left and any(True for _ in store.all_current(name)):
            return

        def change(found: Object) -> Object:
            found["metadata"]["finalizers"] = [
                one for one in found["metadata"].get("finalizers") or [] if one != CLEANUP
            ]
            return found

        self._write(name, change, "")

    def _write(self, name: str, change: Change, subresource: str) -> None:
        try:
            self._cluster.writer.update(self._kind, "", name, change, WriteOptions(), subresource=subresource)
        except Status as refused:
            if refused.code != 404:
                failed("definition cannot be updated", name=name, error=refused.message)
