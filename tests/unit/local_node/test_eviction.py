"""Who has to go when the disk fills."""

from __future__ import annotations

from pathlib import Path

from gpu_runtime.local.kinds.container import Container, Resources
from gpu_runtime.local.kinds.pods import Pod, PodMeta, PodSpec
from gpu_runtime.local.node.agent.eviction import Usage, largest_when_full, measure, over_limit

MIB = 1 << 20


def a_pod(*limits: str) -> Pod:
    containers = [
        Container(name=f"c{number}", resources=Resources(limits={"ephemeral-storage": limit} if limit else {}))
        for number, limit in enumerate(limits)
    ]
    return Pod(metadata=PodMeta(name="p"), spec=PodSpec(containers=containers))


def test_a_pod_without_limits_may_write_what_it_likes() -> None:
    assert over_limit(a_pod(""), Usage({"c0": 1 << 40}, {})) is None


def test_a_container_past_its_limit_and_a_pod_past_the_sum_are_told_apart() -> None:
    pod = a_pod("1Mi", "1Mi")
    assert over_limit(pod, Usage({"c0": MIB, "c1": MIB}, {})) is None
    past = over_limit(pod, Usage({"c0": MIB + 1}, {}))
    assert past
    assert past.message == 'Container c0 exceeded its local ephemeral storage limit "1Mi". '
    past = over_limit(pod, Usage({"c0": MIB, "c1": MIB}, {"v": 1}))
    assert past
    assert past.message == "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "


def test_the_largest_pod_goes_when_the_disk_is_nearly_full_and_only_if_that_helps() -> None:
    usages = {"small": Usage({"c": MIB}, {}), "large": Usage({"c": 90 * MIB}, {})}
    assert largest_when_full(usages, free=6 * MIB, size=100 * MIB) is None
    chosen = largest_when_full(usages, free=MIB, size=100 * MIB)
    assert chosen
    assert chosen[0] == "large"
    assert chosen[1].message.startswith("The node was low on resource: ephemeral-storage.")
    assert largest_when_full({"small": usages["small"]}, free=MIB, size=100 * MIB) is None


def test_what_a_pod_wrote_is_measured_by_container_and_volume(tmp_path: Path) -> None:
    for name in ("containers/main/0/layer/upper1", "containers/main/1/layer/root", "volumes/v"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(b"x" * 8192)
    usage = measure(tmp_path)
    assert usage.containers["main"] >= 2 * 8192
    assert usage.volumes["v"] >= 8192
