from __future__ import annotations

from pathlib import Path

from equipment.installation import Up
from equipment.waiting import eventually_sync
from local.up.traces import processes_of, traces_of
from local.up.units import create, page, seed, until_ready


def test_nothing_is_left_when_it_ends_and_all_is_there_when_it_starts_again(own_up: Up) -> None:
    own_up.start()
    seed(own_up, "stock", 2)
    create(own_up, "kept")
    url = until_ready(own_up, "kept")["accessURL"]
    assert processes_of(own_up.data_dir), "or that none is left would prove nothing"
    assert own_up.stop() == 0
    order = [line.split()[1] for line in own_up.said.splitlines() if " stopped in " in line]
    assert order[-2:] == ["local-cluster", "broker"]
    assert traces_of(own_up.data_dir) == []
    assert own_up.command("status").returncode == 3

    own_up.start()
    assert until_ready(own_up, "kept")["accessURL"] == url
    assert "Directory listing for /" in page(url)
    eventually_sync(lambda: ready_stock(own_up) == 1, what="the stock is warm again")
    assert own_up.command("down").returncode == 0
    assert own_up.process is not None
    assert own_up.process.wait(60) == 0
    assert traces_of(own_up.data_dir) == []


def test_a_process_that_cannot_start_says_why_and_nothing_is_left(own_up: Up, tmp_path: Path) -> None:
    (tmp_path / "runtime-api.yaml").write_text("tokenFile: /nowhere/tokens\n")
    ended = own_up.command("up", "--port", str(own_up.port), "--config", str(tmp_path))
    assert ended.returncode == 1, ended
    assert "error: runtime-api: exit code 2" in ended.stderr
    assert "/nowhere/tokens" in ended.stderr
    assert traces_of(own_up.data_dir) == []


def test_a_wrong_setting_is_named_before_anything_starts(own_up: Up, tmp_path: Path) -> None:
    (tmp_path / "controller-manager.yaml").write_text("wrokers: 3\n")
    ended = own_up.command("up", "--port", str(own_up.port), "--config", str(tmp_path))
    assert ended.returncode == 2
    assert "wrokers" in ended.stderr


def ready_stock(up: Up) -> int:
    status, answer = up.call("GET", "/operator/stock-units")
    return sum(each.get("phase") == "Ready" for each in answer["data"]) if status == 200 else 0
