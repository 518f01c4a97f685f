"""A pod template is kept for as long as the spec that it was built for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from gpu_runtime.api.meta.object import ObjectMeta
from gpu_runtime.api.v1alpha1.gpuunit import GPUUnitSpec
from gpu_runtime.api.v1alpha1.stockpool import StockPoolSpec
from gpu_runtime.controllers.child_kinds.pod_template import Container, PodSpec, PodTemplate
from gpu_runtime.controllers.child_kinds.workloads import Deployment, DeploymentSpec, LabelSelector
from gpu_runtime.controllers.kept_template import digest, keep
from gpu_runtime.controllers.labels import POD_TEMPLATE
from gpu_runtime.kube.children import changes
from unit.controllers.children import TESTDATA, Case

RELEASED = sorted(TESTDATA.glob("v*/*.live.yaml"))


def a_template(image: str) -> PodTemplate:
    return PodTemplate(spec=PodSpec(containers=[Container(name="c", image=image)]))


def a_deployment(annotations: dict[str, str]) -> Deployment:
    spec = DeploymentSpec(selector=LabelSelector(), template=a_template("drifted"))
    return Deployment(metadata=ObjectMeta(name="d", annotations=annotations), spec=spec)


OLD = keep(None, generation=1, source="a", build=lambda: a_template("old"))

CASES: dict[str, tuple[dict[str, str], int, str, str]] = {
    "nothing is kept yet": ({}, 1, "a", "new"),
    "the same generation": (OLD.annotation, 1, "a", "old"),
    "the same generation, digested otherwise by another version of ours": (OLD.annotation, 1, "b", "old"),
    "a new generation of the same source": (OLD.annotation, 2, "a", "old"),
    "a new generation of another source": (OLD.annotation, 2, "b", "new"),
    "a copy that a hand has spoilt": ({POD_TEMPLATE: '{"generation": 1'}, 1, "a", "new"),
    "a copy that a hand has emptied": ({POD_TEMPLATE: "{}"}, 1, "a", "new"),
}


@pytest.mark.parametrize(("annotations", "generation", "source", "want"), CASES.values(), ids=CASES)
def test_the_template_of(annotations: dict[str, str], generation: int, source: str, want: str) -> None:
    kept = keep(a_deployment(annotations), generation=generation, source=source, build=lambda: a_template("new"))
    assert kept.template.spec.containers[0].image == want
    again = keep(a_deployment(kept.annotation), generation=generation, source=source, build=lambda: a_template("x"))
    assert again == kept


def test_an_annotation_that_still_holds_is_left_as_it_was_written() -> None:
    odd = {POD_TEMPLATE: OLD.annotation[POD_TEMPLATE].replace(":", ": ")}
    assert keep(a_deployment(odd), generation=1, source="a", build=lambda: a_template("x")).annotation == odd


def test_a_template_that_is_too_large_for_an_annotation_is_built_again_each_time() -> None:
    large = "x" * 300_000
    kept = keep(None, generation=1, source="a", build=lambda: a_template(large))
    assert kept.template.spec.containers[0].image == large
    assert len(kept.annotation[POD_TEMPLATE]) < 100
    again = keep(a_deployment(kept.annotation), generation=1, source="a", build=lambda: a_template("newer"))
    assert again.template.spec.containers[0].image == "newer"
    assert again.annotation == kept.annotation


def test_scaling_leaves_the_digest_as_it_is() -> None:
    one, two = (StockPoolSpec(specName="g1.1", replicas=count) for count in (1, 2))
    assert digest(one, without=("replicas",)) == digest(two, without=("replicas",))
    assert digest(one) != digest(two)


def test_every_other_field_changes_the_digest() -> None:
    spec = GPUUnitSpec(specName="g1.1")
    assert digest(spec) != digest(msgspec.structs.replace(spec, image="x"))


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_deployment_of_an_earlier_version_is_left_as_it_is(path: Path) -> None:
    """The files are Deployments as a real API server keeps them, of each version of ours that was released.

    They are never written anew. When this test fails, upgrading would restart every pod: see controllers/child_kinds.
    """
    live = msgspec.convert(yaml.safe_load(path.read_text()), Deployment)
    desired = next(child for _, child in Case.read(path.name.removesuffix(".live.yaml")).children(live))
    assert changes(live, desired) == {}
