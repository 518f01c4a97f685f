from __future__ import annotations

import os
import resource
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from equipment.waiting import eventually
from gpu_runtime.supervisor.events import Ended, Ready
from gpu_runtime.supervisor.folder import Folder
from gpu_runtime.supervisor.holder import Held, hold, holder
from gpu_runtime.supervisor.identity import Identity
from gpu_runtime.supervisor.supervisor import end_leftovers
from unit.supervisor.stage import Stage


async def test_the_process_of_a_killed_supervisor_is_adopted_and_watched(stage: Stage) -> None:
    program = stage.program("api")
    left = await stage.leave_behind(program)
    async with stage.running(program):
        assert stage.diary("started") == ["api"]
        assert stage.record("api").identity == left.identity
        assert any(isinstance(event, Ready) and event.adopted for event in stage.told)
    assert not left.identity.running()


async def test_an_adopted_process_that_dies_is_started_again(stage: Stage) -> None:
    program = stage.program("api")
    left = await stage.leave_behind(program)
    async with stage.running(program):
        stage.kill("api")
        await stage.ended(left)
        await eventually(lambda: stage.diary("started") == ["api", "api"])


async def test_a_process_that_was_started_differently_is_ended_and_started_anew(stage: Stage) -> None:
    program = stage.program("api")
    left = await stage.leave_behind(program, digest="of other settings")
    async with stage.running(program):
        assert not left.identity.running()
        assert stage.diary("started") == ["api", "api"]
        assert [event.leftover for event in stage.told if isinstance(event, Ended)] == [True]


async def test_a_changed_settings_file_counts_as_started_differently(stage: Stage, tmp_path: Path) -> None:
    settings = tmp_path / "api.yaml"
    settings.write_text("port: 1\n")
    program = replace(stage.program("api"), files=(settings,))
    before = program.digest()
    settings.write_text("port: 2\n")
    assert program.digest() != before


async def test_a_process_that_is_no_longer_wanted_is_ended(stage: Stage) -> None:
    left = await stage.leave_behind(stage.program("retired"))
    async with stage.running(stage.program("api")):
        assert not left.identity.running()


async def test_a_record_of_another_process_with_the_same_id_harms_nobody(stage: Stage) -> None:
    left = await stage.leave_behind(stage.program("api"))
    mistaken = msgspec.structs.replace(left.identity, started="1")
    stage.folder.write(msgspec.structs.replace(left, identity=mistaken))
    assert await end_leftovers(stage.folder, stage.told.append) == {}
    assert stage.folder.records() == []
    assert left.identity.running()
    stage.folder.write(left)
    await end_leftovers(stage.folder, stage.told.append)
    assert not left.identity.running()


def test_a_process_of_an_earlier_boot_is_not_the_one_that_has_its_id_now() -> None:
    me = Identity.of(os.getpid())
    assert me is not None
    assert me.running()
    assert not msgspec.structs.replace(me, boot="another").running()


def test_a_second_holder_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "data")
    folder.make()
    with hold(folder.lock):
        with pytest.raises(Held, match=f"process {os.getpid()}, since "), hold(folder.lock):
            pass
        found = holder(folder.lock)
        assert found is not None
        assert found.identity.pid == os.getpid()
    assert holder(folder.lock) is None
    with hold(folder.lock):
        pass


def test_a_record_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "data")
    folder.make()
    (folder.root / "run" / "broken.json").write_text("{")
    assert folder.records() == []


def test_the_lock_holds_on_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """Else `down` could not end anything there."""
    folder = Folder(tmp_path / "data")
    folder.make()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with hold(folder.lock), pytest.raises(Held, match="a process that has only begun"), hold(folder.lock):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
