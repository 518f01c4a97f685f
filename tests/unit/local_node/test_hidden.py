"""Which places of the machine are hidden from pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runtime.local.node.hidden import Hidden, ShownFolder, hidden_places, homes


def test_homes_of_root_and_of_people_are_hidden_and_no_place_of_software() -> None:
    users = [
        (0, "/root"), (1, "/usr/sbin"), (33, "/var/www"), (1000, "/home/ann"), (1001, "/data/people/bob"),
        (1002, "/"), (1003, "/srv"), (65534, "/usr/nobody"), (1004, "relative/home"),
    ]  # fmt: skip
    assert homes(users) == ["/data/people/bob", "/home", "/root"]


def test_a_home_behind_a_link_is_hidden_where_it_really_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert str(tmp_path / "real") in homes([(1000, str(tmp_path / "link"))])


def test_this_machines_credentials_are_hidden() -> None:
    found = hidden_places()
    for path in ("/etc/shadow", "/etc/gshadow", "/run/docker.sock", "/root", "/home/x", str(Path.home())):
        assert found.hides(Path(path)), path
    assert not found.hides(Path("/usr/bin"))


def test_a_shown_folder_is_not_hidden_and_what_is_beside_it_is(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "key").symlink_to("/etc/shadow")
    hidden = Hidden(homes=[str(tmp_path)], masked=["/etc/shadow"])
    shown = [ShownFolder.parse(str(tmp_path / "models"))]
    assert not hidden.hides(tmp_path / "models" / "llama", shown)
    assert hidden.hides(tmp_path / "models-of-others", shown)
    assert hidden.hides(tmp_path / "models" / ".." / "x", shown)
    assert hidden.hides(tmp_path / "key", [ShownFolder(str(tmp_path))])


def test_a_folder_is_shown_for_reading_unless_writing_is_asked_for(tmp_path: Path) -> None:
    assert ShownFolder.parse(str(tmp_path)) == ShownFolder(str(tmp_path), writable=False)
    assert ShownFolder.parse(f"{tmp_path}:rw") == ShownFolder(str(tmp_path), writable=True)
    with pytest.raises(ValueError, match="is not a folder"):
        ShownFolder.parse(str(tmp_path / "none"))
