"""What all tests share: which engine they run on."""

from collections.abc import Iterator

import pytest
from databases import PostgresServer, Server, ValkeyServer

from interlock.engines.locating import NEW

SERVERS: dict[str, type[Server]] = {"redis": ValkeyServer, "postgres": PostgresServer}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        choices=("sqlite", *SERVERS),
        default="sqlite",
        help="what keeps the log of every workspace that the tests make",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--engine") != "sqlite":
        config.hook.pytest_deselected(items=[item for item in items if _is_embedded(item)])
        items[:] = [item for item in items if not _is_embedded(item)]


def _is_embedded(item: pytest.Item) -> bool:
    return item.get_closest_marker("embedded") is not None


@pytest.fixture(scope="session", autouse=True)
def _engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The engine of the run. Each process of the tests has a server of its own."""
    kind = request.config.getoption("--engine")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(NEW, raising=False)
        if kind == "sqlite":
            yield
            return
        with SERVERS[kind](tmp_path_factory.mktemp(kind)) as server:
            patch.setenv(NEW, server.url)
            yield
