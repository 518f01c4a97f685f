"""The runner of mutants changes one file and nothing else, and is not fooled."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import mutants
from mutants import Mutant, Trial

TEST = "tests/unit/ci/test_mutants.py::test_a_change_is_seen"
WORD = Mutant(TEST, "api/meta/object.py", "class Key(", "class Key2(")


def test_the_overlay_has_the_change_and_the_source_has_not(tmp_path: Path) -> None:
    mutants.overlay(tmp_path, WORD)
    show = "import gpu_runtime.api.meta.object as m; print(m.__file__, hasattr(m, 'Key2'))"
    command = [sys.executable, "-c", show]
    done = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(tmp_path / "gpu_runtime" / WORD.path), "True"], done.stderr
    assert "Key2" not in (mutants.PACKAGE / WORD.path).read_text()
    assert (tmp_path / "gpu_runtime" / "kube").is_symlink()
    copy, source = ({path.name for path in folder.iterdir()} for folder in (tmp_path / "gpu_runtime", mutants.PACKAGE))
    assert copy - {"__pycache__"} == source - {"__pycache__"}


def test_a_change_that_cannot_be_made_any_more_is_told() -> None:
    assert mutants.stale(WORD) == ""
    assert "0 times" in mutants.stale(Mutant(TEST, "api/meta/object.py", "no such text", ""))
    assert "0 times" in mutants.stale(Mutant(TEST, "no/such/file.py", "a", "b"))


def test_when_the_time_is_up_no_further_mutant_is_tried() -> None:
    trial = Trial("embedded", {}, deadline=time.monotonic())
    mutants.try_all(trial, [WORD])
    assert (trial.tried, trial.survivors) == (0, [])


def test_a_test_of_the_embedded_server_runs_on_the_changed_one(tmp_path: Path) -> None:
    trial = Trial("real", {"GPU_RUNTIME_TEST_KUBECONFIG": "file"}, deadline=0.0)
    on_server = Mutant("tests/kube/runtime/test_client.py::test_x", "local/apiserver/store.py", "", "")
    assert trial._server_for(on_server) == "embedded"
    assert "GPU_RUNTIME_TEST_KUBECONFIG" in trial._environment_for(on_server, "folder")
    elsewhere = Mutant("tests/local/node/test_x.py::test_x", "local/apiserver/store.py", "", "")
    assert "GPU_RUNTIME_TEST_KUBECONFIG" not in trial._environment_for(elsewhere, "folder")
