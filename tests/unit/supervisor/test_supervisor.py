from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from equipment.mutation import mutant
from equipment.waiting import eventually
from gpu_runtime.supervisor.events import Died, Ended, Ready, StartFailed, Unready
from gpu_runtime.supervisor.folder import Folder
from gpu_runtime.supervisor.watcher import ASKED_IN_SILENCE, ASKED_WHILE_UNREADY
from unit.supervisor.stage import SILENT_SECONDS, Stage


async def test_a_program_starts_when_those_before_it_are_ready_and_is_stopped_before_them(stage: Stage) -> None:
    programs = [stage.program("api", after=("cluster",)), stage.program("cluster")]
    async with stage.running(*programs):
        assert stage.diary("started") == ["cluster", "api"]
        assert [event.name for event in stage.told if isinstance(event, Ready)] == ["cluster", "api"]
    assert stage.diary("stopped") == ["api", "cluster"]


async def test_nothing_is_left_when_it_ends(stage: Stage) -> None:
    async with stage.running(stage.program("cluster"), stage.program("api", after=("cluster",))):
        records = stage.folder.records()
        assert all(record.identity.running() for record in records)
    assert not any(record.identity.running() for record in records)
    assert stage.folder.records() == []


async def test_what_has_to_be_prepared_is_done_before_the_next_program_starts(stage: Stage) -> None:
    seen: list[list[str]] = []

    async def prepare() -> None:
        seen.append(stage.diary("started"))

    async with stage.running(
        replace(stage.program("cluster"), prepare=prepare), stage.program("api", after=("cluster",))
    ):
        assert seen == [["cluster"]]


async def test_others_start_when_a_program_serves_and_all_is_ready_when_it_is(stage: Stage) -> None:
    cluster = stage.program("cluster", "last")  # is not ready before another has started
    serves = cluster.health.replace("/readyz", "/livez")
    async with stage.running(replace(cluster, serves=serves), stage.program("api", after=("cluster",))):
        assert stage.diary("started") == ["cluster", "api"]
        assert {event.name for event in stage.told if isinstance(event, Ready)} == {"cluster", "api"}


async def test_a_program_that_lives_and_gives_no_answer_is_killed_and_started_again(stage: Stage) -> None:
    stage = stage.soon_hears_silence()
    async with stage.running(stage.program("api"), stage.program("proxy")):
        hung = stage.record("api")
        os.kill(hung.identity.pid, signal.SIGSTOP)
        await ready_again(stage, restarts=1)
        assert stage.record("api").identity != hung.identity
        assert stage.record("proxy").restarts == 0
    died = [event for event in stage.told if isinstance(event, Died)]
    assert {event.name for event in died} == {"api"}
    assert died[0].silent >= SILENT_SECONDS


async def test_a_program_that_says_what_it_lacks_is_left_alone(stage: Stage) -> None:
    """However long it lasts: its restart would bring nothing back."""
    stage = stage.soon_hears_silence()
    async with stage.running(stage.program("api", "fading")):
        record = stage.record("api")
        await eventually(lambda: len(stage.diary("asked")) > 2 * ASKED_IN_SILENCE, what="it was asked often enough")
        assert stage.record("api") == record
    assert not any(isinstance(event, Died) for event in stage.told)


async def test_a_program_that_must_not_stay_unready_is_stopped_and_started_again(stage: Stage) -> None:
    program = replace(stage.program("api", "fading"), unready_seconds=0.2)
    async with stage.running(program):
        await eventually(lambda: stage.record("api").restarts == 1, what="it was started again")
        await eventually(lambda: stage.diary("started") == ["api", "api"], what="it runs again")
    unready = [event for event in stage.told if isinstance(event, Unready)]
    assert [(event.name, event.problem) for event in unready] == [("api", "disk: is full")]
    assert unready[0].seconds >= 0.2
    assert stage.diary("stopped")[0] == "api", "it was not killed"


async def test_a_program_that_must_not_stay_unready_may_be_so_while_it_starts(stage: Stage) -> None:
    """A broker reads its store at its start, which takes as long as it takes."""
    stage = stage.soon_hears_silence()
    async with stage.running(replace(stage.program("api", "fading"), unready_seconds=0.2)):
        await eventually(lambda: stage.record("api").restarts == 1, what="it was started again")
        asked = len(stage.diary("asked"))
        await eventually(
            lambda: len(stage.diary("asked")) > asked + 4 * ASKED_WHILE_UNREADY, what="it was asked often enough"
        )
        assert stage.record("api").restarts == 1


async def test_a_program_that_hangs_when_it_is_started_again_is_killed_once_more(stage: Stage) -> None:
    stage = stage.soon_hears_silence()
    async with stage.running(stage.program("api", "hangs-second")):
        stage.kill("api")
        await ready_again(stage, restarts=2)
    died = [event for event in stage.told if isinstance(event, Died)]
    assert [event.silent > 0 for event in died][:2] == [False, True]


async def test_a_killed_program_is_started_again_and_said_so(stage: Stage) -> None:
    async with stage.running(stage.program("api")):
        for restarts in (1, 2, 3):
            killed = stage.kill("api")
            await ready_again(stage, restarts)
            assert stage.record("api").identity != killed.identity
            assert stage.record("api").restarts == restarts
    died = [event for event in stage.told if isinstance(event, Died)]
    assert [(event.name, event.how) for event in died] == [("api", "killed by SIGKILL")] * 3
    assert [event.again_in for event in died] == [0.01, 0.02, 0.04]


@mutant("supervisor/watcher.py", "                self._failures = 0\n", "                pass\n")
async def test_a_program_that_was_ready_for_long_is_started_again_as_soon_as_after_its_first_death(
    stage: Stage,
) -> None:
    stage = replace(stage, patience=replace(stage.patience, settled_seconds=0))
    async with stage.running(stage.program("api")):
        for restarts in (1, 2, 3):
            stage.kill("api")
            await ready_again(stage, restarts)
    assert [event.again_in for event in stage.told if isinstance(event, Died)] == [0.01] * 3


async def test_a_program_that_cannot_start_ends_all_and_shows_its_last_words(stage: Stage) -> None:
    programs = [stage.program("cluster"), stage.program("api", "broken", after=("cluster",))]
    with pytest.raises(StartFailed, match="api: exit code 1") as failed:
        await stage.supervisor(*programs).run(asyncio.Event())
    assert failed.value.log_tail == ("no disk",)
    assert stage.diary("started") == ["cluster", "api", "api"]
    assert stage.diary("stopped") == ["cluster"]


async def test_a_program_that_calls_its_settings_wrong_is_not_tried_again(stage: Stage) -> None:
    with pytest.raises(StartFailed, match="api: exit code 2") as failed:
        await stage.supervisor(stage.program("api", "misused")).run(asyncio.Event())
    assert failed.value.log_tail == ("the settings are wrong",)
    assert stage.diary("started") == ["api"]


async def test_a_program_that_never_becomes_ready_is_ended(stage: Stage) -> None:
    stage = replace(stage, patience=replace(stage.patience, ready_seconds=0.5))
    with pytest.raises(StartFailed, match=r"api: not ready after 0\.5 s: "):
        await stage.supervisor(stage.program("api", "never-ready")).run(asyncio.Event())
    assert stage.folder.records() == []


async def test_the_answer_of_somebody_else_on_the_port_counts_for_nothing(stage: Stage) -> None:
    stranger = stage.program("stranger")
    async with stage.running(stranger):
        port = int(stranger.health.rsplit(":", 1)[1].split("/")[0])
        twin = Stage(Folder(stage.folder.root / "twin"))
        twin.folder.make()
        with pytest.raises(StartFailed, match="api: exit code 1") as failed:
            await twin.supervisor(twin.program("api", port=port)).run(asyncio.Event())
    assert "Address already in use" in failed.value.log_tail[-1]


async def test_a_program_that_does_not_end_in_time_is_killed_and_said_so(stage: Stage) -> None:
    async with stage.running(stage.program("api", "stubborn")):
        record = stage.record("api")
    assert not record.identity.running()
    assert [(event.name, event.killed) for event in stage.told if isinstance(event, Ended)] == [("api", True)]


async def test_who_asks_a_second_time_need_not_wait(stage: Stage) -> None:
    stop, ready = asyncio.Event(), asyncio.Event()
    patient = replace(stage.program("api", "stubborn"), stop_seconds=600)
    supervisor = stage.supervisor(patient)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(supervisor.run(stop, all_ready=ready.set))
        await ready.wait()
        record = stage.record("api")
        stop.set()
        await asyncio.sleep(0)  # the supervisor begins to stop
        supervisor.hurry()
    assert not record.identity.running()


async def test_a_stop_during_the_start_leaves_nothing(stage: Stage) -> None:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.supervisor(stage.program("api", "never-ready")).run(stop))
        await eventually(lambda: stage.diary("started"))
        record = stage.record("api")
        stop.set()
    assert not record.identity.running()


@mutant("supervisor/supervisor.py", "        await end_leftovers(self._folder, self._report)  #", "        #")
async def test_a_stop_before_a_left_process_was_adopted_ends_it_too(stage: Stage) -> None:
    cluster, api = stage.program("cluster", "never-ready"), stage.program("api", after=("cluster",))
    left = await stage.leave_behind(api)
    stop = asyncio.Event()
    running = asyncio.create_task(stage.supervisor(cluster, api).run(stop))
    await eventually(lambda: "cluster" in stage.diary("started"), what="the cluster starts")
    stop.set()
    await running
    try:
        await stage.ended(left)
    finally:
        if left.identity.running():
            os.kill(left.identity.pid, signal.SIGKILL)
    assert stage.folder.records() == []


async def test_programs_that_wait_for_each_other_are_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match="each of these waits for another: a, b"):
        stage.supervisor(stage.program("a", after=("b",)), stage.program("b", after=("a",)))


async def ready_again(stage: Stage, restarts: int) -> None:
    """Ready after so many restarts, or more: one that starts slowly may count as hung where little patience is had."""
    await eventually(lambda: any(isinstance(each, Ready) and each.restarts >= restarts for each in stage.told))


def in_the_way(path: Path) -> Path:
    """A folder in place of the file: it can be neither replaced nor removed, as on a full or read-only disk."""
    path.unlink()
    path.mkdir()
    return path


async def test_a_process_that_cannot_be_recorded_is_tried_again_until_it_can(stage: Stage) -> None:
    async with stage.running(stage.program("api"), stage.program("proxy")):
        obstacle = stage.folder.root / "run" / "api.json"
        proxy, killed = stage.record("proxy"), stage.kill("api")
        in_the_way(obstacle)
        await stage.ended(killed)
        await eventually(
            lambda: any(isinstance(event, Died) and "cannot be recorded" in event.how for event in stage.told),
            what="a start that could not be recorded was told",
        )
        assert stage.record("proxy") == proxy
        obstacle.rmdir()
        await eventually(
            lambda: any(isinstance(event, Ready) and event.restarts for event in stage.told), what="api runs again"
        )
        assert stage.record("api").identity.running()


async def test_all_are_stopped_though_a_record_cannot_be_removed(stage: Stage) -> None:
    async with stage.running(stage.program("cluster"), stage.program("api", after=("cluster",))):
        records = stage.folder.records()
        in_the_way(stage.folder.root / "run" / "api.json")
    assert not any(record.identity.running() for record in records)


async def test_a_first_start_that_cannot_be_recorded_says_so_and_leaves_nothing(stage: Stage) -> None:
    (stage.folder.root / "run" / "api.json").mkdir()
    program = stage.program("api")
    with pytest.raises(StartFailed, match=r"api: cannot be recorded: .*Is a directory"):
        await stage.supervisor(program).run(asyncio.Event())
    with socket.socket() as server:
        server.bind(("127.0.0.1", urlsplit(program.health).port))  # nobody listens there any more
