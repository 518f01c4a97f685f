"""Delete and deletecollection: preconditions, finalizers, propagation and grace."""

from __future__ import annotations

from datetime import datetime, timedelta

from gpu_runtime.local.apiserver.admission import Attempt, Chain
from gpu_runtime.local.apiserver.environment import Environment, stamp
from gpu_runtime.local.apiserver.errors import Status, Subject, conflict, not_found
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.metadata import FOREGROUND, ORPHAN
from gpu_runtime.local.apiserver.options import DeleteOptions
from gpu_runtime.local.apiserver.records import Object
from gpu_runtime.local.apiserver.store import Store, Write

DELETED_APART = {"customresourcedefinitions", "namespaces"}  # kube-apiserver has its own deletion code for these


class Deletion:
    """The result of one delete: the last state of the object, and whether it is gone."""

    __slots__ = ("gone", "obj", "write")

    def __init__(self, obj: Object, gone: bool, write: Write | None) -> None:
        self.obj = obj
        self.gone = gone
        self.write = write

    async def committed(self) -> None:
        if self.write is not None:
            await self.write.committed


class Deleter:
    """Decides every delete. Nothing here awaits."""

    def __init__(self, store: Store, admission: Chain, environment: Environment) -> None:
        self._store = store
        self._admission = admission
        self._environment = environment

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> Deletion:
        key = kind.key(namespace, name)
        record = self._store.current(kind.resource, key)
        if record is None:
            raise not_found(kind.subject, name)
        obj = kind.object(record)
        check_preconditions(kind.subject, obj, options)
        attempt = Attempt(kind, "DELETE", namespace, name, old=obj, dry_run=options.dry_run)
        self._admission.admit(attempt, self._store)
        self._admission.check(attempt, self._store)
        meta = obj["metadata"]
        before = record.object()
        first = not meta.get("deletionTimestamp")
        if first and kind.strategy.ending(obj, stamp(self._environment.now())):
            return Deletion(obj, False, self._write(kind, key, obj, before, options))
        graceful, pending = self._grace(kind, obj, options)
        if pending:
            return Deletion(obj, False, None)
        if not kind.strategy.removable(obj):
            return Deletion(obj, False, self._write(kind, key, obj, before, options))
        wait_for = [one for one in meta.get("finalizers") or [] if one not in (ORPHAN, FOREGROUND)]
        orphans = kind.strategy.orphans_by_default
        wait_for += _propagation(meta.get("finalizers") or [], options, orphans)
        waits = bool(wait_for)
        if graceful is None and waits:
            self._mark(meta)
        if wait_for:
            meta["finalizers"] = wait_for
        else:
            meta.pop("finalizers", None)
        if waits or graceful:
            write = self._write(kind, key, obj, before, options)
            return Deletion(obj, False, write)
        if graceful is not None:
            # A watcher sees two events for the end of a pod, as on the real server: modified, then deleted.
            self._write(kind, key, obj, before, options)
        last = dict(obj)
        write = None if options.dry_run else self._store.write(kind.resource, key, obj, deleted=True)
        return Deletion(last, True, write)

    def _write(self, kind: Kind, key: str, obj: Object, before: Object, options: DeleteOptions) -> Write | None:
        if options.dry_run or obj == before:
            return None
        return self._store.write(kind.resource, key, obj)

    def _grace(self, kind: Kind, obj: Object, options: DeleteOptions) -> tuple[int | None, bool]:
        """The grace period in seconds (None: the kind has none), and whether an earlier delete has set it."""
        meta = obj["metadata"]
        asked = kind.strategy.grace(obj, options.grace)
        if asked is None:
            return None, False
        now = self._environment.now()
        if not meta.get("deletionTimestamp"):
            meta["deletionTimestamp"] = stamp(now + timedelta(seconds=asked))
            meta["deletionGracePeriodSeconds"] = asked
            if meta.get("generation"):
                meta["generation"] += 1
            return asked, False
        left = meta.get("deletionGracePeriodSeconds")
        if not left:
            return None, False
        if options.grace is None or options.grace >= left:
            return left, True
        end = datetime.fromisoformat(meta["deletionTimestamp"]) + timedelta(seconds=options.grace - left)
        period = options.grace
        if end < now:
            end = now
            period = 1 if period else 0
        meta["deletionTimestamp"] = stamp(end)
        meta["deletionGracePeriodSeconds"] = period
        return period, False

    def _mark(self, meta: Object) -> None:
        now = stamp(self._environment.now())
        if not meta.get("deletionTimestamp"):
            if meta.get("generation"):
                meta["generation"] += 1
            meta["deletionTimestamp"] = now
        elif meta["deletionTimestamp"] > now:
            meta["deletionTimestamp"] = now
        meta["deletionGracePeriodSeconds"] = 0


def check_preconditions(subject: Subject, obj: Object, options: DeleteOptions) -> None:
    meta = obj["metadata"]
    if options.uid is not None and options.uid != meta["uid"]:
        raise _unmet(subject, meta, "UID", options.uid, meta["uid"], "deleted and then recreated")
    if options.version is not None and options.version != meta["resourceVersion"]:
        raise _unmet(subject, meta, "ResourceVersion", options.version, meta["resourceVersion"], "modified")


def _unmet(subject: Subject, meta: Object, what: str, asked: str, found: str, perhaps: str) -> Status:
    """The conflict in the words of kube-apiserver, which differ for the kinds of DELETED_APART."""
    if subject.plural in DELETED_APART:
        why = f"Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
        return conflict(subject, meta["name"], why)
    why = f"the {what} in the precondition ({asked}) does not match the {what} in record ({found}). "
    kind = subject._replace(plural=subject.kind)
    return conflict(kind, meta["name"], f"{why}The object might have been {perhaps}")


def _propagation(finalizers: list[str], options: DeleteOptions, orphans: bool) -> list[str]:
    """The finalizers that garbage collection must remove first."""
    if options.orphan is not None:
        return [ORPHAN] if options.orphan else []
    match options.propagation:
        case "Orphan":
            return [ORPHAN]
        case "Foreground":
            return [FOREGROUND]
        case "Background":
            return []
    found = [one for one in finalizers if one in (ORPHAN, FOREGROUND)]
    return found or ([ORPHAN] if orphans else [])


def deleted_status(kind: Kind, obj: Object) -> Object:
    """The answer to a delete that is done."""
    details = {"name": obj["metadata"]["name"]}
    if kind.group:
        details["group"] = kind.group
    details |= {"kind": kind.plural, "uid": obj["metadata"]["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
