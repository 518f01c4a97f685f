"""The rules of a kind: what the server fills in, keeps and refuses when an object is created, updated or deleted."""

from __future__ import annotations

from typing import Any

from gpu_runtime.local.apiserver.errors import Cause
from gpu_runtime.local.apiserver.names import NameRule, dns_subdomain
from gpu_runtime.local.apiserver.records import Object, same
from gpu_runtime.local.apiserver.store import Store


class Strategy:
    """The common case; kinds override what differs. Objects are compact: empty fields are absent."""

    name_rule: NameRule = staticmethod(dns_subdomain)
    create_on_update = False
    unconditional_update = True
    returns_deleted = False
    has_generation = False
    has_status = False
    orphans_by_default = False
    rechecks_metadata = True
    """Whether an update checks names again, although it cannot change them. The real server does so for most kinds."""
    bare_finalizers = False
    """Whether finalizers without a domain are accepted."""
    fields: tuple[str, ...] = ()
    """Field selectors beyond metadata.name and metadata.namespace."""

    def default(self, obj: Object) -> None:
        """Sets the defaults of every document that the server reads."""

    def prepare_create(self, obj: Object, now: str) -> None:  # noqa: ARG002
        """Removes what a client may not set, before validation."""
        if self.has_status:
            obj.pop("status", None)
        if self.has_generation:
            obj["metadata"]["generation"] = 1

    def prepare_update(self, new: Object, old: Object) -> None:
        """Keeps what an update of the main resource may not touch."""
        if self.has_status:
            keep(new, old, "status")
        if self.has_generation and self.changed(new, old):
            bump_generation(new, old)

    def changed(self, new: Object, old: Object) -> bool:
        """Whether the desired state differs, so that the generation increases."""
        return not same(new.get("spec"), old.get("spec"))

    def prepare_status(self, new: Object, old: Object, now: str) -> None:  # noqa: ARG002
        """Keeps the spec; most kinds let their metadata change with the status."""
        keep(new, old, "spec")

    def prepare_finalize(self, new: Object, old: Object) -> None:
        """Keeps everything but the finalizers of a Namespace's spec."""

    def validate(self, obj: Object) -> list[Cause]:  # noqa: ARG002
        return []

    def validate_update(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        return self.validate(new)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        return []

    def grace(self, obj: Object, asked: int | None) -> int | None:  # noqa: ARG002
        """The grace period of a delete in seconds; None where deletes are immediate."""
        return None

    def allocate(self, new: Object, old: Object | None, store: Store, *, dry_run: bool) -> list[Cause]:  # noqa: ARG002
        """Gives out what only one object may hold, such as addresses, before the object is validated."""
        return []

    def ending(self, obj: Object, now: str) -> bool:  # noqa: ARG002
        """Marks an object at its first delete in the kind's own way. True when the delete must do nothing else now."""
        return False

    def removable(self, obj: Object) -> bool:  # noqa: ARG002
        """Whether an object without finalizers may be removed. Namespaces also wait for those in their spec."""
        return True


def keep(new: dict[str, Any], old: dict[str, Any], field: str) -> None:
    """Sets a field back to what it was."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def bump_generation(new: Object, old: Object) -> None:
    new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
