"""What the children of the tests of calls that are sent ahead serve: quick methods that can turn out otherwise."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


class Quick:
    """One method, so that the pool takes every call of it for quick."""

    def act(self, number: int, what: str = "", mark: str = "") -> object:
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "raise":
            raise LookupError(number)
        elif what == "hang":
            Path(mark).write_text(str(os.getpid()))
            time.sleep(60)
        elif what == "fill":
            return bytes([number]) * 2_000
        elif what == "large":
            return bytes([number]) * 1_000_000
        return number
