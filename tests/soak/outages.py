"""The server of a soak on Redis: with its append-only file on, stopped every so often and started again on the file."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from pathlib import Path
from typing import Literal

from tests.stores.redis.servers import Server

EVERY_S = 20.0
_DOWN_S = (0.2, 3.0)
_ENDS_WITHIN_S = 30.0

How = Literal["SIGTERM", "SIGKILL"]


class Outages:
    """`how` the server ends. Told by SIGTERM it writes everything down first; killed, it loses nothing that it had
    acknowledged because it writes each change down before its answer (`appendfsync always`)."""

    def __init__(self, folder: Path, how: How, draw: random.Random, every_s: float = EVERY_S) -> None:
        sync = "always" if how == "SIGKILL" else "everysec"
        self._server = Server(folder, "--appendonly", "yes", "--appendfsync", sync, "--loglevel", "warning")
        self._how, self._draw, self._every_s = how, draw, every_s
        self.stops = 0
        self.while_up = asyncio.Lock()
        """Held while the server is down, and by whoever needs it up."""

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    async def happen(self, seconds: float) -> None:
        """Until the time is over. The server is up then."""
        begun = time.monotonic()
        for outage in range(1, int(seconds / self._every_s) + 1):
            if (wait_s := begun + outage * self._every_s - time.monotonic()) > 0:
                await asyncio.sleep(wait_s)
            if time.monotonic() - begun > seconds:
                return
            async with self.while_up:
                await self._end()
                await asyncio.sleep(self._draw.uniform(*_DOWN_S))
                self._server.start()
                self.stops += 1

    async def _end(self) -> None:
        self._server.signal(getattr(signal, self._how))
        give_up = time.monotonic() + _ENDS_WITHIN_S
        # Seen, not reaped: that is the server's own business.
        seen = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, self._server.pid, seen) is None:
            if time.monotonic() > give_up:
                raise RuntimeError(f"the server does not end within {_ENDS_WITHIN_S:.0f} s of {self._how}")
            await asyncio.sleep(0.02)
        self._server.stop()
