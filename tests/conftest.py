"""Fixtures for every tier. A server starts when the first test asks for it, once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from equipment import left_out, servers
from equipment import soak as soaking
from equipment.fake_nodes import add_fake_nodes
from equipment.servers import ApiServer
from equipment.soak import Soak

FAKE_NODES = 3


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    soaking.configure(config)
    # aiohttp waits for no connection that it closes itself between two requests, because the server asked for it or a
    # stream was left early. TLS has a farewell: on a busy machine the test has ended before, and it is another one that
    # would be red when the garbage is collected.
    for what in ("function _SelectorTransport.__del__", "socket.socket"):
        ignored = f"ignore:Exception ignored in. <{what}:pytest.PytestUnraisableExceptionWarning"
        config.addinivalue_line("filterwarnings", ignored)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in left_out.lines(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=("real", "embedded"),
        default="real",
        help="the API server that tests run on; "
        f"{servers.RUNNING_SERVER}=FILE uses a real one that already runs instead of starting one",
    )
    soaking.add_options(parser)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak-only"):
        kept = soaking.only_randomised(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> Soak:
    """Seed and number of rounds of a randomised test. Put the seed into its failure messages."""
    return soaking.options(request.config)


@pytest.fixture(scope="session")
def api_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The API server under the tests, with admin credentials."""
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")
    assert terminal is not None
    kind, folder = request.config.getoption("--server"), tmp_path_factory.mktemp("server")
    with servers.start(kind, folder, terminal.write_line) as server:
        yield server


@pytest.fixture
def namespace(request: pytest.FixtureRequest, api_server: ApiServer) -> Iterator[str]:
    """A namespace for this test alone."""
    with servers.fresh_namespace(api_server, request.node.name) as name:
        yield name


@pytest.fixture(scope="session")
def fake_nodes(api_server: ApiServer) -> list[str]:
    """Names of Ready nodes on which pods run without a machine: 64 CPUs, 512Gi and 16 GPUs each."""
    return add_fake_nodes(api_server, FAKE_NODES)
