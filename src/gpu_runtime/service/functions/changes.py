"""Whether a function may change as a request asks. Pure: decided on one version of the function."""

from __future__ import annotations

from typing import Any

from msgspec import NODEFAULT, UNSET
from msgspec.structs import fields, replace

from gpu_runtime.api.v1alpha1.function_rules import function_errors
from gpu_runtime.api.v1alpha1.gpufunction import GPUFunction, GPUFunctionSpec
from gpu_runtime.rest.errors import Clash, InvalidRequest
from gpu_runtime.rest.function_requests import UpdateGPUFunction


def changed_spec(function: GPUFunction, change: UpdateGPUFunction) -> GPUFunctionSpec:
    """The changed spec. Clash when the function is being deleted, InvalidRequest when the spec breaks a rule."""
    if function.metadata.deletionTimestamp is not None:
        raise Clash(f"function {function.metadata.name} is being deleted: it cannot be changed any more")
    given = {name: getattr(change, name) for name in change.__struct_fields__}
    changes = {name: _default(name) if value is None else value for name, value in given.items() if value is not UNSET}
    changed = replace(function.spec, **changes)
    if found := list(function_errors(changed)):
        raise InvalidRequest.of(found)
    return changed


def _default(name: str) -> Any:
    field = next(each for each in fields(GPUFunctionSpec) if each.name == name)
    return field.default if field.default is not NODEFAULT else field.default_factory()
