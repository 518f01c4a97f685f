"""Controllers that are killed again and again end every scenario as undisturbed ones do."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from equipment.servers import use_running
from gpu_runtime.local.controllers.volumes.matching import PROVISIONER
from local.workloads import scenarios, volume_scenarios
from local.workloads.embedded import children, local_cluster
from local.workloads.running import Bed, run

DISTURBED = (
    scenarios.a_new_template_replaces_the_pods_one_by_one,
    scenarios.recreate_ends_every_old_pod_before_the_first_new_one,
    scenarios.undo_brings_the_former_template_back_as_a_new_revision,
    scenarios.scaling_up_keeps_the_revision,
    scenarios.orphaning_deletion_leaves_the_dependents_without_owner,
    scenarios.foreground_deletion_waits_for_the_dependents,
    scenarios.a_namespace_goes_with_everything_in_it,
    scenarios.a_job_is_complete_when_its_pods_have_succeeded,
    scenarios.a_job_past_its_deadline_fails_and_ends_its_pods,
    volume_scenarios.a_claim_that_waits_for_its_consumer_is_bound_with_it,
    volume_scenarios.a_claim_grows_and_never_shrinks,
    volume_scenarios.a_volume_that_is_deleted_by_hand_stays_as_long_as_its_claim,
    scenarios.a_pod_that_waited_for_gpus_is_placed_when_they_are_free,
    scenarios.a_quota_counts_what_is_there,
)
KILLS = 15
LONGEST_LIFE = 6.0


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A cluster whose controllers live for a few moments each, until enough of them have died."""
    folder = tmp_path_factory.mktemp("disturbed")
    data = folder / "data"
    with (
        local_cluster(data, folder / "log", "--gpus", str(scenarios.GPUS)) as process,
        use_running(data / "kubeconfig", folder) as server,
        killing(process.pid),
    ):
        yield Bed(server, PROVISIONER)


@contextmanager
def killing(cluster: int) -> Iterator[None]:
    over = threading.Event()
    chance = random.Random(1)

    def kill() -> None:
        for _ in range(KILLS):
            if over.wait(chance.uniform(0.5, LONGEST_LIFE)):
                return
            with suppress(ProcessLookupError, KeyError):
                os.kill(children(cluster)["controllers_process"], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("scenario", DISTURBED, ids=lambda one: str(one.__name__))
def test_a_disturbed_scenario_ends_as_its_picture_shows(scenario: scenarios.Scenario, disturbed: Bed) -> None:
    run(disturbed, scenario.__name__, ignore_events=True)


def test_the_killing_finds_its_victim(tmp_path: Path) -> None:
    with local_cluster(tmp_path / "data", tmp_path / "log") as process:
        assert set(children(process.pid)) == {"controllers_process", "node_process"}
