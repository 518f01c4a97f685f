"""The command line around processes and settings."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from equipment.mutation import mutant
from gpu_runtime.cli.main import COMMANDS, main
from gpu_runtime.cmd.processes import PROCESSES

KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


def test_every_command_is_listed_and_helps() -> None:
    listing = CliRunner().invoke(main, ["--help"])
    assert listing.exit_code == 0
    for command in (*COMMANDS, *PROCESSES):
        assert command in listing.output
        assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0


def test_help_imports_no_process() -> None:
    helped = "main(['--help'], standalone_mode=False)"
    code = f"import sys; from gpu_runtime.cli.main import main; {helped}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    heavy = ("gpu_runtime.config", "gpu_runtime.kube", "aiohttp", "msgspec", "yaml")
    assert not [name for name in loaded if name.startswith(heavy)]


def test_the_retired_manager_says_what_to_run_and_exits_with_2() -> None:
    done = CliRunner().invoke(main, ["manager", "--leader-elect", "--http-addr=:8080"])
    assert done.exit_code == 2
    assert "gpu-runtime controller-manager --config" in done.stderr
    assert "gpu-runtime runtime-api --config" in done.stderr


def test_settings_in_force_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("workers: 5\n")
    monkeypatch.setenv("GPU_RUNTIME_CONTROLLER_MANAGER_HEALTH_PORT", "9")
    done = CliRunner().invoke(main, ["config", "show", "controller-manager", "--config", str(path)])
    assert done.exit_code == 0
    assert "workers: 5" in done.output
    assert "port: 9" in done.output


@pytest.mark.parametrize(
    ("process", "settings"),
    [
        ("controller-manager", "health: {{port: {port}}}"),
        ("runtime-api", "health: {{port: {port}}}\nhttpAddr: 127.0.0.1:0"),
        ("runtime-api", "health: {{port: 0}}\nhttpAddr: 127.0.0.1:{port}"),
        ("proxy", "health: {{port: {port}}}\nhttpAddr: 127.0.0.1:0"),
        ("proxy", "health: {{port: 0}}\nhttpAddr: 127.0.0.1:{port}"),
    ],
)
@mutant("edge/runner.py", "except OSError as error:", "except ZeroDivisionError as error:")
def test_a_port_that_is_taken_is_one_line_and_exits_with_2(tmp_path: Path, process: str, settings: str) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path = tmp_path / "c.yaml"
        path.write_text(settings.format(port=port) + "\nlog: {level: error}\n")
        command = [sys.executable, "-m", "gpu_runtime.cli", process]
        options = ["--config", str(path), "--kubeconfig", str(kubeconfig)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


ASKED_WHILE_LOADING = """
import os, signal, sys, types
signal.signal(signal.SIGINT, signal.default_int_handler)  # in a background job it is ignored
from gpu_runtime.cli.processes import process_command
from gpu_runtime.cmd.process import Process

class Slow(types.ModuleType):
    def __getattr__(self, name):
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        raise AssertionError("it went on")

sys.modules["slow"] = Slow("slow")
settings = "gpu_runtime.config.proxy:ProxySettings"
process_command(Process("slow", "Loads slowly.", main="slow:main", settings=settings, kubernetes=False))(args=[])
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_process_that_is_told_to_end_while_it_loads_exits_with_0(name: str) -> None:
    command = [sys.executable, "-c", ASKED_WHILE_LOADING, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_file_is_one_line_a_fault_and_exits_with_2(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("wrokers: 5\n")
    done = CliRunner().invoke(main, ["controller-manager", "--config", str(path)])
    assert done.exit_code == 2
    assert done.stderr == f"Error: {path}: wrokers: unknown field; did you mean workers?\n"
