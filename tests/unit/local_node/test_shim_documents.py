from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpu_runtime.local.node.isolated_python import needed_directories
from gpu_runtime.local.node.shim.mounts import inside
from gpu_runtime.local.node.shim_documents import environment
from gpu_runtime.local.node.specs import ContainerSpec, PodSpec


def test_the_interpreter_on_a_containers_path_lies_where_pods_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment may be reached by a link in /tmp, of which pods have their own."""
    linked = tmp_path / "linked"
    linked.symlink_to(sys.prefix)
    monkeypatch.setattr(sys, "executable", str(linked / "bin" / "python"))
    container = ContainerSpec(name="main", attempt=0, command=["python"])
    pod = PodSpec(uid="uid", namespace="default", name="pod")
    last = environment(container, pod, {})["PATH"].split(os.pathsep)[-1]
    assert any(inside(last, shown) for shown in needed_directories())
