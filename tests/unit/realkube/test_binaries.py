"""Where programs come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from realkube import binaries
from realkube.errors import RealKubeError


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    binaries.cache_dir().mkdir(parents=True)
    return binaries.cache_dir()


def a_program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.touch()
    return path


def test_a_built_program_is_taken_from_the_cache(empty_cache: Path) -> None:
    built = a_program(empty_cache, "etcd")

    assert binaries.ensure("etcd") == {"etcd": built}


def test_given_binaries_come_first_and_the_cache_has_the_rest(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    given = a_program(tmp_path / "assets", "etcd")
    a_program(empty_cache, "etcd")
    cached = a_program(empty_cache, "kubelet")

    assert binaries.ensure("etcd", "kubelet") == {"etcd": given, "kubelet": cached}


def test_without_go_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(RealKubeError, match=r"no go command: install Go 1\.26 or newer"):
        binaries.ensure("etcd", say=lambda _: None)


def test_a_go_that_is_too_old_is_said_at_once(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho 'go: go.mod requires go >= 1.26.0 (running go 1.19)' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")

    with pytest.raises(RealKubeError, match=r"requires go >= 1\.26\.0"):
        binaries.ensure("kwok", say=lambda _: None)
    assert not (empty_cache / "kwok").exists()


def test_a_failed_download_is_tried_again(empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    # Fails the first time, then writes its output file: the word after -o.
    go.write_text(
        f"#!/bin/sh\n[ -e {tmp_path}/tried ] || {{ touch {tmp_path}/tried; echo 429 >&2; exit 1; }}\n"
        'while [ "$1" != -o ]; do shift; done; touch "$2"\n'
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setattr(binaries, "RETRY_PAUSE", 0.0)

    assert binaries.ensure("etcd", say=lambda _: None) == {"etcd": empty_cache / "etcd"}


def test_the_version_is_stamped_as_in_a_release() -> None:
    assert "-X k8s.io/component-base/version.gitVersion=v1.35.4" in binaries.linker_flags()
    assert "-X k8s.io/client-go/pkg/version.gitMinor=35" in binaries.linker_flags()
