from __future__ import annotations

from gpu_runtime import kube


def test_the_public_names_are_exactly_these_and_all_exist() -> None:
    assert sorted(kube.__all__) == kube.__all__
    assert all(hasattr(kube, name) for name in kube.__all__)
    public = {name for name, value in vars(kube).items() if not name.startswith("_") and not _is_module(value)}
    assert public == set(kube.__all__)


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"
