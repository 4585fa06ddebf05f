"""What the parts of one open Redis store share: the connection, the key names, the store's time, and the wakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workfleet.clock import SystemClock

from ..wakes import Wakes, queue_topic
from .connection import Connection
from .layout import Layout
from .link import Part
from .markers import Markers
from .names import Names
from .scripts import Script

_FRESH_S = 1.0


class Session:
    """One store of one app. `sender` is how it knows its own notifications, `channel` is where the app's go.

    `test_now_ms` replaces the server's time in every script: for tests that move a clock of their own.
    """

    def __init__(
        self,
        app: str,
        layout: Layout,
        connection: Connection,
        wakes: Wakes,
        *,
        sender: str,
        markers: Markers,
        names: Names | None = None,
        metrics_minutes: int | None = None,
        test_now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.app, self.layout, self.connection, self.wakes = app, layout, connection, wakes
        self.sender, self.channel = sender, layout.app("wakes")
        self._markers, self.names, self._test_now_ms = markers, names, test_now_ms
        self.metrics_minutes = metrics_minutes
        self._clock = SystemClock()
        self._heard: tuple[int, float] | None = None
        """The server's time, and when it was heard."""

    def now(self) -> str:
        """What scripts take as the given time (`parts/now.lua`): empty for the server's."""
        return "" if self._test_now_ms is None else str(self._test_now_ms())

    async def now_ms(self) -> int:
        """The store's time."""
        heard = self.heard_ms()
        if heard is not None:
            return heard
        seconds, micros = await self.connection.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def run(self, script: Script, keys: Sequence[str], args: Sequence[Part]) -> Any:
        """Run a script whose first arguments are the time, the channel and the sender; the rest are `args`."""
        return await self.connection.run(script, keys, (self.now(), self.channel, self.sender, *args))

    def hear(self, now_ms: int) -> None:
        """The server has just said its time."""
        self._heard = now_ms, self._clock.monotonic()

    def heard_ms(self) -> int | None:
        """The server's time, where it said it a moment ago."""
        if self._test_now_ms is not None:
            return self._test_now_ms()
        if self._heard is None or (since_s := self._clock.monotonic() - self._heard[1]) > _FRESH_S:
            return None
        return self._heard[0] + int(since_s * 1000)

    async def wait_for_queues(self, queues: Sequence[str], timeout_ms: int) -> bool:
        """Wait until one of the queues may have something new, or the time is over (False)."""
        topics = [queue_topic(queue) for queue in queues]
        with self._markers.wanted(queues):
            return await self.wakes.wait(topics, timeout_ms)

    async def close(self) -> None:
        """End its connections."""
        await self._markers.close()
        if self.names is not None:
            await self.names.close()
        await self.connection.close()

    def announce(self, topics: Iterable[bytes]) -> None:
        """Wake who waits in this process for what a script says has changed (`parts/wake.lua`)."""
        self.wakes.announce([topic.decode() for topic in topics])
