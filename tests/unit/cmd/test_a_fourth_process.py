"""A declared process is found everywhere, with no edit elsewhere: CLI, `up`, status, RBAC, manifests and docs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import generate
from equipment.mutation import mutant
from equipment.waiting import eventually, eventually_sync
from gpu_runtime.cli.main import main
from gpu_runtime.cmd.processes import PROCESSES
from gpu_runtime.cmd.up import console, programs
from gpu_runtime.cmd.up.layout import Layout, Ports
from gpu_runtime.cmd.up.run import Options, plan
from gpu_runtime.cmd.up.status import read_status, table
from gpu_runtime.supervisor.events import Ended, Event
from gpu_runtime.supervisor.program import Program
from gpu_runtime.supervisor.supervisor import Supervisor
from realkube.process import free_ports
from unit.cmd import toy
from unit.cmd.toy import TOY

COMMAND = (sys.executable, str(Path(toy.__file__)))


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one place that knows of it. A child process of ours must know of it too."""
    monkeypatch.setitem(PROCESSES, TOY.name, TOY)
    monkeypatch.setattr(programs, "COMMAND", COMMAND)


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done
    return done.output


def test_it_is_a_command_with_help() -> None:
    assert "toy                 Greet whoever asks." in invoke("--help")
    shown = invoke("toy", "--help")
    assert "Greet whoever asks." in shown
    assert "--config" in shown
    assert "--kubeconfig" not in shown  # it needs no Kubernetes


def test_its_settings_are_shown_with_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_RUNTIME_TOY_GREETING", "good day")
    shown = yaml.safe_load(invoke("config", "show", "toy"))
    assert (shown["greeting"], shown["health"]["port"]) == ("good day", 8099)


async def planned(folder: Path) -> tuple[Layout, Ports, list[Program]]:
    layout = Layout.at(folder / "data")
    layout.supervised.make()
    ports, _, found = await plan(Options(layout, port=free_ports(1)[0]))
    return layout, ports, found


@mutant("cmd/up/settings.py", "process.up.settings(urls)", "{}")
async def test_up_runs_it_with_ports_and_settings_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, ports, found = await planned(tmp_path)
    program = next(each for each in found if each.name == "toy")
    assert program.after == ("runtime-api",)
    assert program.command == (*COMMAND, "toy", "--config", str(layout.supervised.config("toy")))
    settings = TOY.load_settings(program.files[0], {})
    assert program.address == f"http://{settings.httpAddr}" == ports.urls()["toy"]
    assert program.health == f"http://127.0.0.1:{settings.health.port}/readyz"
    assert settings.apiURL == ports.urls()["runtime-api"]
    assert f"export TOY_URL={program.address}" in invoke("env", "--data-dir", str(layout.root))
    console.welcome(layout, ports, layout.kubeconfig)
    assert f"  Greeting {program.address}/\n" in capsys.readouterr().out


@asynccontextmanager
async def supervised(layout: Layout, program: Program, events: list[Event]) -> AsyncIterator[None]:
    """The process under the supervisor of `up`, ready; it is ended with the block."""
    stop, ready = asyncio.Event(), asyncio.Event()
    supervisor = Supervisor(layout.supervised, [program], events.append)
    async with asyncio.TaskGroup() as group:
        group.create_task(supervisor.run(stop, all_ready=ready.set))
        await asyncio.wait_for(ready.wait(), 120)
        yield
        stop.set()


async def test_up_starts_it_and_status_shows_it_until_it_is_stopped(tmp_path: Path) -> None:
    layout, _, found = await planned(tmp_path)
    program = replace(next(each for each in found if each.name == "toy"), after=())
    events: list[Event] = []
    async with supervised(layout, program, events):
        heading, row = table(await asyncio.to_thread(read_status, layout))
        shown = dict(zip(heading, row, strict=True))
        assert (shown["NAME"], shown["STATE"]) == ("toy", "ready")
        assert program.address.endswith(f":{shown['PORT']}")

        async def greets() -> bool:
            return await asyncio.to_thread(page, program.address) == (200, "hello")

        await eventually(greets, what="it greets")
    ended = events[-1]
    assert isinstance(ended, Ended)
    assert not ended.killed


def test_permissions_manifests_settings_and_docs_follow() -> None:
    files: dict[str, Any] = {path: list(yaml.safe_load_all(text)) for path, text in generate.manifest_files().items()}
    rights = {each["kind"]: each for each in files["config/rbac/role.yaml"] if "toy" in each["metadata"]["name"]}
    assert rights.keys() == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    assert rights["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]

    deployment = named("toy", files["config/manager/manager.yaml"])
    pod = deployment["spec"]["template"]["spec"]
    assert (deployment["spec"]["replicas"], pod["serviceAccountName"]) == (3, "gpu-runtime-toy")
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["command"] == ["gpu-runtime", "toy", "--config", "/etc/gpu-runtime/toy.yaml"]
    assert {"name": "words", "secret": {"secretName": "toy-words"}} in pod["volumes"]
    data = named("toy", files["config/manager/process_config.yaml"])["data"]
    assert yaml.safe_load(data["toy.yaml"])["httpAddr"] == "0.0.0.0:8098"
    ports = named("toy", files["config/manager/services.yaml"])["spec"]["ports"]
    assert [(each["name"], each["port"]) for each in ports] == [("http", 8098), ("metrics", 8099)]
    assert files["config/local/toy.yaml"][0]["greeting"] == "hello"
    assert "| `toy` | Greet whoever asks. | 8098 | 8099 |" in generate.docs_files()["docs/processes.md"]


def named(name: str, documents: list[Any]) -> Any:
    return next(each for each in documents if each["metadata"]["name"] == name)


@contextmanager
def running(folder: Path, text: str) -> Iterator[subprocess.Popen[str]]:
    path = folder / "toy.yaml"
    path.write_text(text)
    command = [*COMMAND, "toy", "--config", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def page(url: str) -> tuple[int, str]:
    """The status and the text that are answered; 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@mutant("kube/process.py", "loop.add_signal_handler(each, stop.set)", "pass")
def test_it_becomes_ready_and_exits_with_0_after_sigterm(tmp_path: Path) -> None:
    http, health = free_ports(2)
    with running(tmp_path, f"httpAddr: 127.0.0.1:{http}\nhealth: {{port: {health}}}\n") as process:
        eventually_sync(lambda: page(f"http://127.0.0.1:{health}/readyz")[0] == 200, what="it is ready")
        assert page(f"http://127.0.0.1:{health}/healthz") == (200, "ok\n")
        assert page(f"http://127.0.0.1:{http}/") == (200, "hello")
        assert "toy_greetings_total 1.0" in page(f"http://127.0.0.1:{health}/metrics")[1]
        process.send_signal(signal.SIGTERM)
        _, logged = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "stopping: no new requests are accepted" in logged


@pytest.mark.parametrize(
    ("settings", "code", "last"),
    [
        ("greeting: unusable", 2, "Error: greeting: cannot be used"),
        ("greting: hello", 2, "toy.yaml: greting: unknown field; did you mean greeting?"),
        ("greeting: defect", 1, "ZeroDivisionError"),
        ("greeting: both", 1, "+------------------------------------"),
    ],
)
@mutant("kube/process.py", "and len(error.exceptions) == 1:", ":")
@mutant("kube/process.py", "if not isinstance(cause, ConfigError):", "if True:")
def test_wrong_settings_are_one_line_and_a_defect_has_its_trace(
    tmp_path: Path, settings: str, code: int, last: str
) -> None:
    with running(tmp_path, f"health: {{port: {free_ports(1)[0]}}}\n{settings}\n") as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == code
    assert said.splitlines()[-1].endswith(last)
    assert ("Traceback" in said) is (code == 1)
    assert code == 1 or said.count("\n") == 1
