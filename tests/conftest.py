"""What every test stands on: signals as a terminal's shell hands them out, and no traceback that nobody asked for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest


def pytest_configure() -> None:
    # A background job or nohup leaves these ignored, and every process that the tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def no_debugging() -> Iterator[None]:
    """`--debug` sets this for the workers too, so a command that a test runs in its own process leaves it behind."""
    yield
    os.environ.pop("WORKFLEET_DEBUG", None)
