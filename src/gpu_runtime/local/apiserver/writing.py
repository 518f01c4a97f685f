"""Create, update and patch: each computes the new object from the stored one and makes one write."""

from __future__ import annotations

from collections.abc import Callable

from gpu_runtime.local.apiserver import metadata
from gpu_runtime.local.apiserver.admission import Attempt, Chain
from gpu_runtime.local.apiserver.environment import Environment
from gpu_runtime.local.apiserver.errors import (
    Subject,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    stale,
    wrong,
)
from gpu_runtime.local.apiserver.kinds import Kind
from gpu_runtime.local.apiserver.names import path_segment
from gpu_runtime.local.apiserver.options import WriteOptions
from gpu_runtime.local.apiserver.records import Object, encode, same
from gpu_runtime.local.apiserver.store import Store, Write

Change = Callable[[Object], Object]
"""Returns the wanted object for the stored one; may raise Status."""


class Outcome:
    """The result of a write: the body of the answer, and the commit to wait for."""

    __slots__ = ("body", "created", "obj", "write")

    def __init__(self, kind: Kind, obj: Object, write: Write | None, *, created: bool = False) -> None:
        self.obj = obj
        self.write = write
        self.created = created
        shown = kind.wire(write.event.record) if write is not None else kind.prefix + encode(kind.format.view(obj))[1:]
        self.body = shown

    async def committed(self) -> None:
        if self.write is not None:
            await self.write.committed


class Writer:
    """Decides every write. Nothing here awaits: two writers never see the same version."""

    def __init__(self, store: Store, admission: Chain, environment: Environment) -> None:
        self.store = store
        self._admission = admission
        self._environment = environment

    def create(self, kind: Kind, namespace: str, obj: Object, options: WriteOptions) -> Outcome:
        """A new object under its name or a generated one."""
        self._begin(kind, namespace, obj)
        attempt = Attempt(
            kind,
            "CREATE",
            namespace,
            obj["metadata"].get("name", ""),
            new=obj,
            dry_run=options.dry_run,
        )
        self._admission.admit(attempt, self.store)
        return self._finish_create(kind, namespace, obj, attempt)

    def _begin(self, kind: Kind, namespace: str, obj: Object) -> None:
        metadata.place(obj, namespace if kind.namespaced else "")
        metadata.without_repeated_owners(obj["metadata"])
        metadata.begin(obj, self._environment.timestamp(), self._environment.uid())
        meta = obj["metadata"]
        if meta.get("generateName") and not meta.get("name"):
            meta["name"] = self._generated_name(kind, namespace, meta["generateName"])

    def _generated_name(self, kind: Kind, namespace: str, prefix: str) -> str:
        for _ in range(8):
            name = prefix[:58] + self._environment.suffix()
            if self.store.current(kind.resource, kind.key(namespace, name)) is None:
                break
        return name

    def _finish_create(self, kind: Kind, namespace: str, obj: Object, attempt: Attempt) -> Outcome:
        strategy = kind.strategy
        if taken := strategy.allocate(obj, None, self.store, dry_run=attempt.dry_run):
            raise invalid(kind.subject, obj["metadata"].get("name", ""), taken)
        strategy.prepare_create(obj, self._environment.timestamp())
        name = obj["metadata"].get("name", "")
        causes = [] if "kind" in obj else metadata.causes(obj["metadata"], kind, strategy.name_rule)
        causes += strategy.validate(obj) + kind.format.choice_causes(obj)
        if causes:
            raise invalid(_subject(kind, obj), name, causes)
        attempt.name = name
        self._admission.check(attempt, self.store)
        if _number(obj["metadata"].get("resourceVersion", "")) and not attempt.dry_run:
            raise bad_request("resourceVersion should not be set on objects to be created")
        existing = self.store.current(kind.resource, kind.key(namespace, name))
        if existing is not None:
            refused = already_exists(kind.subject, name)
            if existing.object()["metadata"].get("deletionTimestamp"):
                refused.message = f"object is being deleted: {refused.message}"
            raise refused
        return self._put(attempt, _stored(kind, obj), created=True)

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Change,
        options: WriteOptions,
        *,
        subresource: str = "",
        precondition: str = "",
        may_create: bool = False,
    ) -> Outcome:
        """Replaces an object by the result of `change`. Writes nothing when nothing differs."""
        record = self.store.current(kind.resource, kind.key(namespace, name))
        if record is None:
            if may_create and kind.strategy.create_on_update and not subresource:
                return self._create_on_update(kind, namespace, name, change({}), options)
            raise not_found(kind.subject, name)
        stored = record.object()
        old = kind.format.restored(kind.object(record))
        kind.strategy.default(old)
        uid = old["metadata"]["uid"]
        if precondition and precondition != uid:
            why = f"Precondition failed: UID in precondition: {precondition}, UID in object meta: {uid}"
            raise conflict(kind.subject, name, why)
        new = change(kind.object(record))
        metadata.place(new, namespace if kind.namespaced else "")
        metadata.without_repeated_owners(new["metadata"])
        self._check_version(kind, name, new, old)
        attempt = Attempt(kind, "UPDATE", namespace, name, subresource, new, old, options.dry_run)
        self._admission.admit(attempt, self.store)
        if not subresource and (taken := kind.strategy.allocate(new, old, self.store, dry_run=options.dry_run)):
            raise invalid(kind.subject, name, taken)
        subject = _subject(kind, new)
        self._validate_update(kind, name, new, old, subresource, subject)
        if subject is not kind.subject:
            new = attempt.new = kind.format.view(new)  # a status of another kind was read by that kind's schema
        self._admission.check(attempt, self.store)
        return self._finish_update(attempt, new, stored)

    def _create_on_update(self, kind: Kind, namespace: str, name: str, obj: Object, options: WriteOptions) -> Outcome:
        if obj["metadata"].get("uid"):
            why = f"Precondition failed: UID in precondition: {obj['metadata']['uid']}, UID in object meta: "
            raise conflict(kind.subject, name, why)
        obj["metadata"].pop("resourceVersion", None)
        obj["metadata"].setdefault("name", name)
        return self.create(kind, namespace, obj, options)

    def _check_version(self, kind: Kind, name: str, new: Object, old: Object) -> None:
        asked = new["metadata"].get("resourceVersion", "")
        if not asked or asked == "0":
            if not kind.strategy.unconditional_update:
                subject = kind.subject._replace(kind=kind.plural)
                raise invalid(subject, name, [wrong("metadata.resourceVersion", 0, "must be specified for an update")])
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            return
        if _number(asked) is None:
            raise bad_request(f'strconv.ParseUint: parsing "{asked}": invalid syntax')
        if int(asked) != int(old["metadata"]["resourceVersion"]):
            raise stale(kind.subject, name)

    def _validate_update(
        self, kind: Kind, name: str, new: Object, old: Object, subresource: str, subject: Subject
    ) -> None:
        strategy = kind.strategy
        metadata.keep_on_update(new["metadata"], old["metadata"])
        match subresource:
            case "status":
                strategy.prepare_status(new, old, self._environment.timestamp())
            case "finalize":
                strategy.prepare_finalize(new, old)
            case "binding":
                return
            case _:
                strategy.prepare_update(new, old)
        # The real server checks metadata several times, once for all kinds and then in each, and reports every time.
        causes = metadata.causes(new["metadata"], kind, path_segment)
        if strategy.rechecks_metadata and not subresource:
            causes += metadata.causes(new["metadata"], kind, strategy.name_rule)
        causes += 2 * metadata.update_causes(new["metadata"], old["metadata"])
        if subresource == "status":
            causes += strategy.validate_status(new, old)
        else:
            causes += strategy.validate_update(new, old) + kind.format.choice_causes(new)
        if causes:
            raise invalid(subject, name, causes)

    def _finish_update(self, attempt: Attempt, new: Object, stored: Object) -> Outcome:
        kind = attempt.kind
        done = _stored(kind, new)
        if self._ends(kind, done, stored):
            key = kind.key(attempt.namespace, attempt.name)
            answer = dict(done)
            write = None if attempt.dry_run else self.store.write(kind.resource, key, stored, deleted=True)
            outcome = Outcome(kind, answer, None)
            outcome.write = write
            return outcome
        if same(done, stored):
            return Outcome(kind, stored, None)
        return self._put(attempt, done)

    def _ends(self, kind: Kind, new: Object, old: Object) -> bool:
        """Whether this write removes the last finalizer of an object under deletion."""
        meta = old["metadata"]
        if new["metadata"].get("finalizers") or not meta.get("deletionTimestamp"):
            return False
        return not meta.get("deletionGracePeriodSeconds") and kind.strategy.removable(new)

    def _put(self, attempt: Attempt, obj: Object, *, created: bool = False) -> Outcome:
        kind = attempt.kind
        if attempt.dry_run:
            return Outcome(kind, obj, None, created=created)
        for step in attempt.beforehand:
            step()
        write = self.store.write(kind.resource, kind.key(attempt.namespace, attempt.name), obj)
        return Outcome(kind, obj, write, created=created)


def _number(version: str) -> int | None:
    return int(version) if version.isascii() and version.isdecimal() else None


def _subject(kind: Kind, obj: Object) -> Subject:
    """The kind that an object states. A custom object may state a wrong one."""
    if "kind" not in obj:
        return kind.subject
    if not obj["apiVersion"]:
        raise bad_request("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    return Subject(obj["apiVersion"].rpartition("/")[0], kind.plural, obj["kind"])


def _stored(kind: Kind, obj: Object) -> Object:
    """The object as a read from storage returns it: the real server sets defaults again when it reads."""
    kind.strategy.default(obj)
    return kind.format.complete(obj)


def check_name(obj: Object, name: str) -> None:
    """A PUT's body names the object of its URL."""
    found = obj["metadata"].get("name", "")
    if not found:
        raise bad_request("the name of the object (based on the body) was undeterminable: name must be provided")
    if found != name:
        raise bad_request(f"the name of the object ({found}) does not match the name on the URL ({name})")
