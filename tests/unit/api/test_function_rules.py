"""What a spec of a function may say that its schema lets pass and that cannot work."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpu_runtime.api.v1alpha1.function_rules import function_errors
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunctionSpec
from gpu_runtime.api.v1alpha1.samples import GPU_FUNCTION_SAMPLE

UNIT = {"specName": "cpu.small"}
IMAGE = {**UNIT, "image": "framework:1"}
HANDLER = {"source": "def main(payload): ...\n"}
CASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "an image": ({"unit": IMAGE}, {}),
    "a handler": ({"unit": UNIT, "handler": HANDLER}, {}),
    "a handler with variables": (
        {"unit": {**UNIT, "template": {"envs": [{"name": "A", "value": "1"}]}}, "handler": HANDLER},
        {},
    ),
    "neither image nor handler": ({"unit": UNIT}, {"unit.image": "is required unless the function has a handler"}),
    "image and handler": ({"unit": IMAGE, "handler": HANDLER}, {"unit.image": "cannot stand beside handler"}),
    "command and handler": (
        {"unit": {**UNIT, "template": {"command": ["python"]}}, "handler": HANDLER},
        {"unit.template": "command and args cannot stand beside handler"},
    ),
    "a handler that does not compile": (
        {"unit": UNIT, "handler": {"source": "def main(:\n"}},
        {"handler.source": "is not valid Python: line 1"},
    ),
    "a handler without its entry": (
        {"unit": UNIT, "handler": {**HANDLER, "entry": "run"}},
        {"handler.source": "defines no run"},
    ),
    "more workers at least than at most": (
        {"unit": IMAGE, "minWorkers": 4, "maxWorkers": 3},
        {"minWorkers": "4 is more than maxWorkers, which is 3"},
    ),
    "the worker's own port": (
        {"unit": {**IMAGE, "template": {"ports": [{"name": "a", "port": 20881}]}}},
        {"unit.template.ports[0].port": "20881 is the platform's own in a worker"},
    ),
    "a template that cannot run": (
        {"unit": {**IMAGE, "template": {"readinessProbe": {}}}},
        {"unit.template.readinessProbe": "must have exactly one of"},
    ),
}


@pytest.mark.parametrize(("spec", "want"), CASES.values(), ids=CASES)
def test_a_function_with(spec: dict[str, Any], want: dict[str, str]) -> None:
    found = {error.field: error.message for error in function_errors(msgspec.convert(spec, GPUFunctionSpec))}
    assert found.keys() == want.keys()
    assert all(found[field].startswith(words) for field, words in want.items()), found


def test_the_sample_is_a_function_that_works() -> None:
    assert list(function_errors(GPU_FUNCTION_SAMPLE.spec)) == []
