"""What every test stands on: signals as a terminal's shell hands them out."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    # A background job or nohup leaves these ignored, and every process that the tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
