from __future__ import annotations

from pathlib import Path

import yaml

from gpu_runtime.cmd.up.install import namespaces, priority_classes

MANIFESTS = Path(__file__).parents[3] / "config" / "default"


def committed(name: str) -> list[dict[str, object]]:
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


def test_up_installs_the_namespaces_and_priority_classes_of_the_manifests() -> None:
    assert namespaces() == committed("namespaces.yaml")
    assert priority_classes() == committed("priority_classes.yaml")
