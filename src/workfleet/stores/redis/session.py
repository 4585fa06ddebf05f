"""What the parts of one open Redis store share: the connection, the key names, the store's time, and the wakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..wakes import Wakes, queue_topic
from .connection import Connection
from .layout import Layout
from .link import Part
from .markers import Markers
from .scripts import Script


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
        markers: Markers | None = None,
        test_now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.app, self.layout, self.connection, self.wakes = app, layout, connection, wakes
        self.sender, self.channel = sender, layout.app("wakes")
        self._markers, self._test_now_ms = markers, test_now_ms

    def now(self) -> str:
        """What scripts take as the given time (`parts/now.lua`): empty for the server's."""
        return "" if self._test_now_ms is None else str(self._test_now_ms())

    async def run(self, script: Script, keys: Sequence[str], args: Sequence[Part]) -> Any:
        """Run a script whose first arguments are the time, the channel and the sender; the rest are `args`."""
        return await self.connection.run(script, keys, (self.now(), self.channel, self.sender, *args))

    async def wait_for_queues(self, queues: Sequence[str], timeout_ms: int) -> bool:
        """Wait until one of the queues may have something new, or the time is over (False)."""
        topics = [queue_topic(queue) for queue in queues]
        if self._markers is None:
            return await self.wakes.wait(topics, timeout_ms)
        with self._markers.wanted(queues):
            return await self.wakes.wait(topics, timeout_ms)

    async def close(self) -> None:
        """End its connections."""
        if self._markers is not None:
            await self._markers.close()
        await self.connection.close()

    def announce(self, topics: Iterable[bytes]) -> None:
        """Wake who waits in this process for what a script says has changed (`parts/wake.lua`)."""
        self.wakes.announce([topic.decode() for topic in topics])
