"""Random documents of every built-in kind: refused or taken, never a failure of the server."""

from __future__ import annotations

import random
from typing import Any

import pytest

from equipment.soak import Soak
from gpu_runtime.local.apiserver.builtin import add_builtin_kinds
from gpu_runtime.local.apiserver.kinds import BuiltinFormat, Kind, Registry
from gpu_runtime.local.apiserver.schema import (
    Amount,
    Binary,
    Boolean,
    Integer,
    IntOrText,
    Mapping,
    Node,
    Sequence,
    Struct,
    Text,
    Time,
)
from local.apiserver.conftest import Api

DOCUMENTS = 20
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ODD: list[Any] = [None, {}, [], "", 0, -1, True, "x"]
TEXTS = ["a", "", "A b", "None", "Always", "10.0.0.1", "x" * 300, "1%", "ClusterIP", "In", "é", "\n"]


class Maker:
    """Makes documents that fit a schema more often than not."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def value(self, node: Node, depth: int = 0) -> Any:
        chance = self._chance
        if depth and chance.random() < 0.02:
            return chance.choice(ODD)
        match node:
            case Struct():
                kept = 0.6 if depth < 2 else 0.35 if depth < 8 else 0.0
                return {k: self.value(f.node, depth + 1) for k, f in node.fields.items() if chance.random() < kept}
            case Sequence():
                return [self.value(node.items, depth + 1) for _ in range(chance.choice([0, 1, 1, 2]))]
            case Mapping():
                keys = chance.sample(["a", "b/c", "x y", ""], chance.choice([0, 1, 2]))
                return {key: self.value(node.values, depth + 1) for key in keys}
        return self._leaf(node)

    def _leaf(self, node: Node) -> Any:
        choices: dict[type[Node], list[Any]] = {
            Text: TEXTS,
            Boolean: [True, False],
            Integer: [0, 1, -1, 80, 2**31 - 1],
            IntOrText: [0, 1, "50%", "http", -5],
            Amount: ["1", "-1", "1Gi", "500m", 3, "0"],
            Time: ["2020-01-01T00:00:00Z", "0001-01-01T00:00:00+05:00", "2020-01-01T00:00:00.000000Z"],
            Binary: ["YQ==", "?"],
        }
        return self._chance.choice(choices.get(type(node), [None, {}, {"type": "object"}, "x", 5]))


def kinds() -> list[Kind]:
    registry = Registry()
    add_builtin_kinds(registry)
    return list(registry)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.plural)
async def test_a_random_document_never_breaks_the_server(api: Api, namespace: str, kind: Kind, soak: Soak) -> None:
    assert isinstance(kind.format, BuiltinFormat)
    prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    path = f"{prefix}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{prefix}/{kind.plural}"
    maker = Maker(soak.random(kind.plural))
    for number in range(soak.rounds(DOCUMENTS)):
        name = f"{namespace}-{number}"
        document = maker.value(kind.format.node)
        meta = document.get("metadata")
        labels = meta.get("labels") if isinstance(meta, dict) else None
        made = await api(
            "POST", path, {**document, "apiVersion": None, "kind": None, "metadata": {"name": name, "labels": labels}}
        )
        change = {
            key: value for key, value in maker.value(kind.format.node).items() if key in ("spec", "status", "data")
        }
        answers = [
            made,
            await api("PATCH", f"{path}/{name}", change, Content_Type="application/merge-patch+json"),
            await api("PATCH", f"{path}/{name}/status", change, Content_Type="application/merge-patch+json"),
            await api("GET", path, Accept=TABLE),
            await api("DELETE", f"{path}/{name}"),
        ]
        assert [answer.body for answer in answers if answer.code >= 500] == []
