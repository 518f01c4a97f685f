"""Names inside a pod."""

from __future__ import annotations

from pathlib import Path

from gpu_runtime.local.node.hosts import ServiceName, hosts_file, resolv_conf, write_in_place


def test_services_of_the_pods_own_namespace_have_a_short_name() -> None:
    services = [ServiceName("team", "web", "10.0.0.5"), ServiceName("other", "db", "10.0.0.6")]
    lines = hosts_file("10.0.0.2", "pod", "team", services).splitlines()
    assert "10.0.0.2\tpod" in lines
    assert "10.0.0.5\tweb.team.svc.cluster.local web.team.svc web.team web" in lines
    assert "10.0.0.6\tdb.other.svc.cluster.local db.other.svc db.other" in lines


def test_name_servers_that_only_the_machine_reaches_are_left_out() -> None:
    text = resolv_conf("nameserver 127.0.0.53\nnameserver 192.168.1.1\nsearch lan\n", "team")
    assert (
        text
        == "search team.svc.cluster.local svc.cluster.local cluster.local\nnameserver 192.168.1.1\noptions ndots:5\n"
    )


def test_a_file_written_in_place_stays_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    write_in_place(path, "long content\n")
    number = path.stat().st_ino
    write_in_place(path, "short\n")
    assert (path.read_text(), path.stat().st_ino) == ("short\n", number)
