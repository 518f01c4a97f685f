"""What clients see of a storage: what was asked for, what the volume is, and who holds it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from equipment.mutation import mutant
from gpu_runtime.api.meta.condition import Condition
from gpu_runtime.api.v1alpha1.annotations import STORAGE_RECOVERY_NONCE
from gpu_runtime.api.v1alpha1.attachment import Attachment
from gpu_runtime.api.v1alpha1.gpustorage import AccessorStatus, GPUStorage, GPUStorageStatus, PrepareStatus
from gpu_runtime.api.v1alpha1.prepare_digest import prepare_digest
from gpu_runtime.rest.views import AccessorView, HolderView
from gpu_runtime.service.views import storage_view
from unit.service.storage_world import READY, a_storage, held_by

SINCE = datetime(2026, 1, 2, tzinfo=UTC)
PREPARE = {"fromImage": "alpine", "command": ["wget"], "args": ["x"]}


def prepared(phase: Any, **status: Any) -> GPUStorage:
    storage = a_storage(prepare=PREPARE)
    said = PrepareStatus(phase=phase, observedDigest=prepare_digest(storage), **status)
    return replace(storage, status=GPUStorageStatus(prepare=said))


def test_the_holder_is_the_one_of_the_record_not_of_the_status() -> None:
    storage = a_storage(status=replace(READY, attachedTo=Attachment(unit="earlier")))
    assert storage_view(storage).attachedTo is None
    assert storage_view(held_by(Attachment(unit="demo", uid="u", since=SINCE), storage)).attachedTo == HolderView(
        unit="demo", since=SINCE
    )
    copied = held_by(Attachment(storage="copy", uid="u"), storage)
    assert storage_view(copied).attachedTo == HolderView(storage="copy")


def test_a_storage_without_prepare_and_accessor_shows_none() -> None:
    view = storage_view(a_storage(status=replace(READY, prepare=PrepareStatus(phase="NotRequested"))))
    assert (view.prepare, view.accessor) == (None, None)


def test_a_prepare_shows_what_was_asked_for_and_how_far_it_is() -> None:
    view = storage_view(prepared("Running", filesCopied=3, filesTotal=10, message="copies", startTime=SINCE)).prepare
    assert view is not None
    assert (view.fromImage, view.command, view.args) == ("alpine", ["wget"], ["x"])
    assert (view.phase, view.filesCopied, view.filesTotal, view.message) == ("Running", 3, 10, "copies")
    assert view.startedAt == SINCE


@mutant("service/views.py", 'and status.observedDigest not in ("", prepare_digest(storage))', "and False")
def test_a_failure_is_not_shown_any_more_once_recovery_is_asked_for() -> None:
    failed = prepared("Failed", recoveryPhase="Required", message="exit code 3")
    asked = replace(failed, metadata=replace(failed.metadata, annotations={STORAGE_RECOVERY_NONCE: "1"}))
    view = storage_view(asked).prepare
    assert view is not None
    assert (view.phase, view.recoveryPhase, view.message) == ("Pending", "Running", "")


@mutant("service/views.py", 'status.phase != "Succeeded" and ', "")
def test_a_success_is_final_even_if_somebody_asks_for_a_recovery() -> None:
    done = prepared("Succeeded")
    asked = replace(done, metadata=replace(done.metadata, annotations={STORAGE_RECOVERY_NONCE: "1"}))
    view = storage_view(asked).prepare
    assert view is not None
    assert view.phase == "Succeeded"


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (None, AccessorView(enabled=True, phase="Pending")),
        (AccessorStatus(phase="Disabled"), AccessorView(enabled=True, phase="Pending")),
        (
            AccessorStatus(phase="Pending"),
            AccessorView(enabled=True, phase="Pending", reason="StorageAccessorYielded", message="to unit demo"),
        ),
        (
            AccessorStatus(phase="Ready", accessURL="http://a/"),
            AccessorView(
                enabled=True,
                phase="Ready",
                accessURL="http://a/",
                reason="StorageAccessorYielded",
                message="to unit demo",
            ),
        ),
    ],
)
def test_an_accessor_shows_where_the_files_are_or_why_not(status: AccessorStatus | None, want: AccessorView) -> None:
    said = Condition.false("AccessorReady", "StorageAccessorYielded", "to unit demo", generation=1)
    shown = a_storage(status=replace(READY, accessor=status, conditions=[said]), accessor={"enabled": True})
    assert storage_view(shown).accessor == want
