"""A server for a whole run, and nothing left of either."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet.running import STARTED
from tests.stores.redis.servers import Server


@pytest.fixture(autouse=True)
def no_run_is_left() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop().end()


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that keeps what it acknowledged, so that it may be killed."""
    made = Server(tmp_path_factory.mktemp("r"), "--appendonly", "yes", "--appendfsync", "always")
    yield made
    made.stop()
