"""A newer version of ours, or new platform settings, restart nobody; they take effect with the next spec."""

from __future__ import annotations

import msgspec
import pytest

from equipment.builders import a_stock_pool
from gpu_runtime.config import SpecSettings
from gpu_runtime.controllers.child_kinds.pod_template import Env, PodTemplate
from gpu_runtime.controllers.gpuunit.resources import deployment as unit_deployment
from gpu_runtime.controllers.gpuunit.resources.deployment import active_pod
from gpu_runtime.controllers.stockpool.resources import deployment as pool_deployment
from gpu_runtime.controllers.stockpool.resources.deployment import pod_template
from kube.controllers.test_gpuunit import demo_unit
from kube.controllers.world import World

replace = msgspec.structs.replace


def newer(template: PodTemplate) -> PodTemplate:
    """What a later version of the builder makes: one more variable."""
    container = template.spec.containers[0]
    container = replace(container, env=[*container.env, Env(name="NEW_IN_THIS_VERSION", value="1")])
    return replace(template, spec=replace(template.spec, containers=[container]))


@pytest.fixture
def newer_version(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(unit_deployment, "active_pod", lambda *args: newer(active_pod(*args)))
    monkeypatch.setattr(pool_deployment, "pod_template", lambda *args: newer(pod_template(*args)))
    return monkeypatch


async def test_a_newer_builder_restarts_no_pod_until_the_spec_changes(
    world: World, request: pytest.FixtureRequest
) -> None:
    async with world.reconciling():
        await world.create(demo_unit(world))
        await world.create(a_stock_pool("pool", world.namespace))
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.becomes("StockPool", "pool", "DeploymentReady")
        await world.settled()
    before = await world.find("Pod")
    request.getfixturevalue("newer_version")
    settings = msgspec.structs.replace(world.settings, specs={"g1.1": SpecSettings(nodeSelector={"type": "kwok"})})
    mark = world.proxy.mark()
    async with world.reconciling(settings):
        await world.resync()
        assert world.written(since=mark) == []
        # Drift is repaired to the copy that was kept, not to what the newer builder makes.
        await world.change("Deployment", "demo", {"spec": {"template": {"spec": {"hostNetwork": True}}}})
        await world.becomes("GPUUnit", "demo", "UnitReady")
        await world.settled()
        container = (await world.read("Deployment", "demo"))["spec"]["template"]["spec"]["containers"][0]
        assert "NEW_IN_THIS_VERSION" not in {each["name"] for each in container["env"]}
        # Scaling changes the spec, but nothing that a pod depends on.
        await world.kubectl("scale", "stockpool", "pool", "--replicas=2")
        await world.becomes("StockPool", "pool", "DeploymentReady", "2 of 2")
        pods = {pod["metadata"]["uid"] for pod in await world.find("Pod")}
        pool_pods = [pod for pod in before if "runtime.lokiwager.io/pool" in pod["metadata"]["labels"]]
        assert {pod["metadata"]["uid"] for pod in pool_pods} <= pods

        await world.change("GPUUnit", "demo", {"spec": {"template": {"args": ["--more"]}}})
        await world.becomes("GPUUnit", "demo", "UnitReady")
        pod = await world.pod_of("demo")
    assert "NEW_IN_THIS_VERSION" in {each["name"] for each in pod["spec"]["containers"][0]["env"]}
    assert pod["spec"]["nodeSelector"] == {"type": "kwok"}
