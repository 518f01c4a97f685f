"""The children of each object, as a person reads them. GPU_RUNTIME_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import json
import os

import pytest
import yaml

from gpu_runtime.controllers.labels import POD_TEMPLATE
from gpu_runtime.kube.client import document_of
from unit.controllers.children import NAMES, TESTDATA, Case


def shown(name: str) -> str:
    documents = [document_of(resource, child) for resource, child in Case.read(name).children()]
    for document in documents:
        if kept := document["metadata"].get("annotations", {}).get(POD_TEMPLATE):
            copy = json.loads(kept)
            assert copy["template"] == document["spec"]["template"], "what is kept is what runs"
            document["metadata"]["annotations"][POD_TEMPLATE] = f"generation {copy['generation']} of {copy['source']}"
    return yaml.safe_dump_all(documents, sort_keys=False, width=120)


@pytest.mark.parametrize("name", NAMES)
def test_the_children_of_an_object_are_these(name: str) -> None:
    path = TESTDATA / f"{name}.out.yaml"
    if os.environ.get("GPU_RUNTIME_UPDATE_GOLDEN"):
        path.write_text(shown(name))
    assert shown(name) == path.read_text()
