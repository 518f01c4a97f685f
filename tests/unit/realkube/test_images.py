"""Stand-in images hold what they promise."""

from __future__ import annotations

import sys
from pathlib import Path

from realkube.images import console_scripts, dependency_files, launcher, library_files, nginx_layer, python_layer


def test_the_interpreter_comes_with_its_library_and_the_loader_that_starts_it() -> None:
    layer = python_layer()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"

    assert layer.files[f"usr/local/bin/{version}"].is_file()
    assert layer.links["usr/local/bin/python"] == version
    assert f"usr/local/lib/{version}/os.py" in layer.files
    assert any(Path(path).name == "libc.so.6" for path in layer.files)
    assert any(Path(path).name.startswith("ld-") for path in layer.files)


def test_tests_and_installed_packages_stay_out_of_the_library(tmp_path: Path) -> None:
    for name in ("os.py", "test/test_os.py", "json/tests/x.py", "site-packages/big.py", "__pycache__/os.opt-1.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert [name for name, _ in library_files(tmp_path)] == ["os.py"]


def test_the_dependencies_are_those_that_are_pinned() -> None:
    folders = {Path(name).parts[0] for name, _ in dependency_files()}

    assert {"aiohttp", "msgspec", "yaml"} <= folders
    assert not {"pytest", "mypy", "hypothesis"} & folders


def test_commands_are_read_from_the_wheels_entry_points() -> None:
    text = "[console_scripts]\nrun-it = package.module:main\n\n[other]\nx = y:z\n"

    assert console_scripts(text) == {"run-it": "package.module:main"}
    assert console_scripts("") == {}


def test_a_launcher_ends_with_the_status_of_its_function() -> None:
    assert launcher("package.module:main").splitlines()[1:] == [
        "import sys",
        "from package.module import main",
        "sys.exit(main())",
    ]


def test_nginx_is_a_program_and_a_page() -> None:
    written = nginx_layer().written

    assert written["usr/sbin/nginx"][1] == 0o755
    assert b"Welcome to nginx!" in written["usr/share/nginx/html/index.html"][0]
