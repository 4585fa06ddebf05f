"""No run outlives its test, passed or failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet.running import STARTED


@pytest.fixture(autouse=True)
def no_run_is_left() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop().end()
