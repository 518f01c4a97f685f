"""Reads settings: defaults, then a strict YAML file, then the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import Struct

from gpu_runtime.api.schema import Node, describe
from gpu_runtime.api.validation import FieldError, validate
from gpu_runtime.errors import ConfigError

S = TypeVar("S", bound=Struct)
PREFIX = "GPU_RUNTIME"


def load(process: str, settings: type[S], path: Path | None, env: Mapping[str, str]) -> S:
    """The effective settings: defaults, then the file, then the environment. ConfigError lists every error."""
    document = read(path) if path is not None else {}
    sources = {"": str(path)}
    prefix = f"{PREFIX}_{_environment_case(process)}_"
    known = dict(_variables(describe(settings), prefix, ()))
    errors = []
    for variable, text in env.items():
        if not variable.startswith(prefix):
            continue
        if variable not in known:
            errors.append(f"{variable}: no setting has this variable")
            continue
        keys, node = known[variable]
        sources[".".join(keys)] = variable
        _put(document, keys, text if node.type == "string" else _parse(variable, text))
    errors += [f"{_source(sources, error)}: {error.field}: {error.message}" for error in validate(settings, document)]
    if errors:
        raise ConfigError("\n".join(errors))
    return msgspec.convert(document, settings)


def show(settings: Struct) -> str:
    """The settings as YAML text. A file with this text gives the same settings."""
    text: str = yaml.safe_dump(msgspec.to_builtins(_explicit(settings)), sort_keys=False)
    return text


class _StrictLoader(yaml.SafeLoader):
    """Rejects keys that are not strings, and duplicate keys: plain YAML silently drops one of two duplicates."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem=f"the key {key} is not a string", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key} is written twice", problem_mark=key_node.start_mark)
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def read(path: Path) -> dict[str, Any]:
    """The content of a settings file. Raises ConfigError when it cannot be read or is not a YAML mapping."""
    try:
        document = yaml.load(path.read_text(), Loader=_StrictLoader)  # noqa: S506  it is a safe loader
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: invalid UTF-8, or a date that does not exist
        raise ConfigError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: must hold keys and values, such as `workers: 4`")
    return document


def _variables(node: Node, prefix: str, keys: tuple[str, ...]) -> Iterator[tuple[str, tuple[tuple[str, ...], Node]]]:
    for name, field in node.fields.items():
        path = (*keys, name)
        if field.node.type == "object":
            yield from _variables(field.node, prefix, path)
        else:
            yield prefix + "_".join(_environment_case(key) for key in path), (path, field.node)


def _environment_case(name: str) -> str:
    """Converts `leaderElection` and `leader-election` to LEADER_ELECTION."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name).upper()


def _parse(variable: str, text: str) -> object:
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506  it is a safe loader
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{variable}: is not a YAML value: {text!r}") from error


def _put(document: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    for key in keys[:-1]:
        inner = document.get(key)
        document[key] = document = inner if isinstance(inner, dict) else {}
    document[keys[-1]] = value


def _source(sources: Mapping[str, str], error: FieldError) -> str:
    """The variable or file that set the wrong value."""
    found = [key for key in sources if key and (error.field == key or error.field.startswith((f"{key}.", f"{key}[")))]
    return sources[max(found, key=len, default="")]


def _explicit(value: object) -> object:
    """Converts Structs to dicts that include default values, which msgspec omits for some Structs."""
    if isinstance(value, Struct):
        return {name: _explicit(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: _explicit(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_explicit(each) for each in value]
    return value
