"""Says to the server, as BullMQ's workers do, who works on which queue: by the names of connections.

Node's `Queue.getWorkers()` and bull-board find workers in CLIENT LIST by `<prefix>:<base64 of the queue>:w:<worker>`. A
connection has one name, so there is one for each queue that is claimed from. Nothing is sent on it but a word from time
to time: an answer that does not come is how a dead network is noticed."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterable
from urllib.parse import quote

from workfleet.errors import StoreUnavailable
from workfleet.ports.clock import Clock

from .connection import Connection

_PING_S = 120.0
_PLAIN = "".join(map(chr, range(33, 127))).replace("%", "")


def shown_name(prefix: str, queue: str, worker: str | None = None) -> str:
    """The name of a worker's connection; without a worker, what the names for that queue begin with."""
    base = f"{prefix}:{b64encode(queue.encode()).decode()}"
    # Blanks and line ends are refused in such a name.
    return quote(base if worker is None else f"{base}:w:{worker}", safe=_PLAIN)


class Names:
    """The named connections of one store. For one event loop. `connect` makes one that has not connected yet."""

    def __init__(self, connect: Callable[[str], Connection], prefix: str, clock: Clock) -> None:
        self._connect, self._prefix, self._clock = connect, prefix, clock
        self._shown: dict[tuple[str, str], Connection] = {}
        self._keeping: set[asyncio.Task[None]] = set()

    def works_on(self, worker: str, queues: Iterable[str]) -> None:
        """A worker claims from these queues: show it from now on. Returns at once."""
        for queue in queues:
            if (worker, queue) not in self._shown:
                connection = self._connect(shown_name(self._prefix, queue, worker))
                self._shown[worker, queue] = connection
                self._keeping.add(asyncio.create_task(self._keep(connection)))

    async def close(self) -> None:
        """Nobody works here any more."""
        for task in self._keeping:
            task.cancel()
        if self._keeping:
            await asyncio.wait(self._keeping)
        for connection in self._shown.values():
            await connection.close()

    async def _keep(self, connection: Connection) -> None:
        while True:
            try:
                await connection.command("PING")
            except StoreUnavailable:
                # It goes on trying by itself, and nothing depends on it.
                pass
            await self._clock.sleep(_PING_S)
