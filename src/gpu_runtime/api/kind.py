"""A kind: its Struct, and the names, columns and subresources of its CustomResourceDefinition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from gpu_runtime.api.meta.object import Object

T_co = TypeVar("T_co", bound=Object, covariant=True)


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`; priority 1 shows it with `-o wide` only."""

    name: str
    path: str
    type: Literal["string", "integer", "boolean", "date"] = "string"
    description: str = ""
    priority: int = 0


AGE = Column("Age", ".metadata.creationTimestamp", "date", "Time since the object was created.")


@dataclass(frozen=True)
class Scale:
    """Where `kubectl scale` and autoscalers read and write the number of replicas."""

    spec_replicas: str
    status_replicas: str
    selector: str


@dataclass(frozen=True)
class NameRule:
    """The pattern of `metadata.name`, for kinds whose name is copied to children or labels."""

    pattern: str
    max_length: int


@dataclass(frozen=True)
class Kind(Generic[T_co]):
    """One kind of an API group. Objects are decoded into `type`; the other fields are for the CRD."""

    group: str
    version: str
    kind: str
    plural: str
    type: type[T_co]
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[Column, ...]
    names: NameRule | None = None
    scale: Scale | None = None
    status_subresource: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def qualified_name(self) -> str:
        """`gpuunits.runtime.lokiwager.io`: the name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"
