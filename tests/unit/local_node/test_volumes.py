"""Volumes that are made of API objects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_runtime.local.kinds.pods import Pod, PodMeta, PodSpec
from gpu_runtime.local.kinds.volume import EmptyDir, KeyToPath, Volume
from gpu_runtime.local.node.agent.volumes import NotReady, Projected, chosen, give_to_group, memory_volumes, project

DATA = {"a": b"A", "b": b"B"}


def test_all_keys_are_files_unless_some_are_chosen() -> None:
    assert chosen(DATA, [], 0o644, optional=False) == {"a": Projected(b"A", 0o644), "b": Projected(b"B", 0o644)}
    items = [KeyToPath(key="a", path="deep/x", mode=0o400), KeyToPath(key="b", path="y")]
    assert chosen(DATA, items, 0o644, optional=False) == {"deep/x": Projected(b"A", 0o400), "y": Projected(b"B", 0o644)}


def test_a_chosen_key_that_is_not_there_is_named() -> None:
    with pytest.raises(NotReady, match="non-existent config key: none"):
        chosen(DATA, [KeyToPath(key="none", path="x")], 0o644, optional=False)
    assert chosen(DATA, [KeyToPath(key="none", path="x")], 0o644, optional=True) == {}


def test_a_projection_follows_its_source_and_leaves_unchanged_files_alone(tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    project(
        folder, {"keep": Projected(b"1", 0o644), "change": Projected(b"2", 0o600), "go": Projected(b"", 0o644)}, None
    )
    kept = (folder / "keep").stat().st_ino
    project(folder, {"keep": Projected(b"1", 0o644), "change": Projected(b"3", 0o600)}, None)
    assert sorted(path.name for path in folder.iterdir()) == ["change", "keep"]
    assert (folder / "change").read_bytes() == b"3"
    assert (folder / "change").stat().st_mode & 0o777 == 0o600
    assert (folder / "keep").stat().st_ino == kept


def test_a_path_that_leaves_the_volume_is_not_written(tmp_path: Path) -> None:
    project(tmp_path / "volume", {"../escape": Projected(b"x", 0o644), "/etc/x": Projected(b"x", 0o644)}, None)
    assert [path.name for path in tmp_path.rglob("*")] == ["volume"]


def test_a_volumes_group_reaches_every_file_and_nothing_that_a_link_leads_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("machine")
    volume = tmp_path / "volume"
    (volume / "deep").mkdir(parents=True)
    (volume / "deep" / "file").write_text("")
    (volume / "deep" / "link").symlink_to(outside)
    (volume / "folder").symlink_to(tmp_path)
    before, other = outside.stat().st_mode, another_group()
    give_to_group(volume, other)
    found = {path: (volume / path).stat().st_gid for path in (".", "deep", "deep/file")}
    assert found == dict.fromkeys(found, other)
    assert (volume / "deep").stat().st_mode & 0o2070 == 0o2070
    assert (outside.stat().st_gid, outside.stat().st_mode) == (os.getgid(), before)


def another_group() -> int:
    """One that this user may give files to."""
    others = [group for group in os.getgroups() if group != os.getgid()]
    if not others and os.getuid():
        pytest.skip("this user has one group")
    return others[0] if os.getuid() else 4321


def test_memory_volumes_are_bounded_by_their_size_limit() -> None:
    volumes = [
        Volume(name="disk", emptyDir=EmptyDir()),
        Volume(name="fast", emptyDir=EmptyDir(medium="Memory", sizeLimit="1Mi")),
        Volume(name="free", emptyDir=EmptyDir(medium="Memory")),
    ]
    pod = Pod(metadata=PodMeta(name="p"), spec=PodSpec(containers=[], volumes=volumes))
    assert memory_volumes(pod) == {"fast": 1 << 20, "free": 0}
