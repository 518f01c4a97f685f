"""Every declaration is complete: what it names exists, and its settings have what the shells need."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from inspect import iscoroutinefunction, signature

import pytest

from equipment.mutation import mutant
from gpu_runtime.api.rbac import Rule, leader_election
from gpu_runtime.api.v1alpha1.namespaces import SYSTEM_NAMESPACE
from gpu_runtime.cmd.process import Process
from gpu_runtime.cmd.processes import CONTROLLER_MANAGER, PROCESSES
from gpu_runtime.config import Health, Log
from gpu_runtime.edge.names import split_address

EACH = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)


@EACH
def test_its_main_takes_settings_and_the_context_of_the_process(process: Process) -> None:
    main = process.load_main()
    assert iscoroutinefunction(main)
    assert list(signature(main).parameters) == ["settings", "process"]


@EACH
def test_its_settings_have_what_the_shells_need(process: Process) -> None:
    settings = process.load_settings(None, {})
    assert isinstance(settings.log, Log)
    assert isinstance(settings.health, Health)
    assert hasattr(settings, "httpAddr") is process.http
    assert hasattr(settings, "allowedHosts") is process.http
    assert hasattr(settings, "leaderElection") is bool(process.lease)


@EACH
def test_up_runs_what_it_starts_after(process: Process) -> None:
    for name in process.up.after if process.up is not None else ():
        assert PROCESSES[name].up is not None


def test_no_two_processes_share_a_default_port_a_lease_or_a_variable() -> None:
    taken: list[object] = []
    for process in PROCESSES.values():
        settings = process.load_settings(None, {})
        taken.append(settings.health.port)
        taken += [split_address(settings.httpAddr)[1]] if process.http else []
        taken += [process.lease] if process.lease else []
        taken += [process.up.variable] if process.up is not None and process.up.variable else []
    assert [each for each, count in Counter(taken).items() if count > 1] == []


@mutant(
    "cmd/process.py",
    "(*namespaces.get(SYSTEM_NAMESPACE, ()), *leader_election(self.lease))",
    "leader_election(self.lease)",
)
def test_the_rules_of_a_lease_come_beside_those_of_the_same_namespace() -> None:
    rule = Rule("", ("configmaps",), ("get",))
    elected = replace(CONTROLLER_MANAGER, namespaced_rules={SYSTEM_NAMESPACE: (rule,)})
    granted = elected.permissions.namespaces[SYSTEM_NAMESPACE]
    assert granted == (rule, *leader_election(elected.lease))
