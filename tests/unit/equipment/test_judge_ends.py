"""I6: what may differ from run to run, and what may not."""

from __future__ import annotations

from equipment.builders import Builder, a_config_map, a_unit
from equipment.judge import same_end

ONE, OTHER, GONE = (f"{digit * 8}-1111-1111-1111-111111111111" for digit in "abc")


def run(uid: str, *more: Builder) -> list[dict[str, object]]:
    """The listing at the end of a run that gave its unit this UID."""
    unit = a_unit("u1").with_uid(uid).at_version(len(uid)).ready()
    child = a_config_map("c", "runtime-instance").with_uid(uid.replace("1111", "2222")).controlled_by(unit)
    return [builder.document() for builder in (unit, child, *more)]


def test_uids_versions_and_times_may_differ() -> None:
    later = run(OTHER)
    for document in later:
        document["metadata"] |= {"resourceVersion": "99", "generation": 7, "creationTimestamp": "x"}  # type: ignore[operator]
    later[0]["status"] |= {"lastSyncTime": "2026-01-01T00:00:00Z"}  # type: ignore[operator]
    earlier = run(ONE)
    earlier[0]["status"] |= {"lastSyncTime": "2025-01-01T00:00:00Z"}  # type: ignore[operator]
    assert same_end(earlier, later) == []


def test_a_missing_and_a_surplus_object_are_seen() -> None:
    extra = a_config_map("extra", "ns").with_uid(GONE)
    assert same_end(run(ONE, extra), run(OTHER)) == ["ConfigMap ns/extra is missing"]
    assert same_end(run(ONE), run(OTHER, extra)) == ["ConfigMap ns/extra should not be there"]


def test_a_reference_to_another_object_is_seen_though_uids_may_differ() -> None:
    orphaned = run(OTHER)
    orphaned[1] = (
        a_config_map("c", "runtime-instance").controlled_by(a_unit("u1").with_uid(GONE)).with_uid(ONE).document()
    )
    [difference] = same_end(run(ONE), orphaned)
    assert difference.startswith("ConfigMap runtime-instance/c.metadata.ownerReferences is ")
    assert "'uid': '<gone>'" in difference
    assert "'uid': '<GPUUnit runtime-instance/u1>'" in difference


def test_a_changed_an_added_and_a_removed_field_are_seen() -> None:
    plain = a_config_map("c", "ns").with_uid(ONE)
    one, other = plain.data(x="1", y="2").document(), plain.data(x="3", z="4").document()
    assert same_end([one], [other]) == [
        "ConfigMap ns/c.data.x is '3', was '1'",
        "ConfigMap ns/c.data.y is missing, was '2'",
        "ConfigMap ns/c.data.z should not be there, is '4'",
    ]
