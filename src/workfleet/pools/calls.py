"""A call on its way through a pool: what was asked, who waits, and until when. Owns no process and no queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from workfleet.pools import wire
from workfleet.pools.parcel import Parcel

NEVER: Final = float("inf")


class Listener(Protocol):
    """Hears what a method says while it runs (`child_context.current()`)."""

    def log(self, entry: Any) -> None: ...
    def progress(self, value: Any) -> None: ...


class Carried(NamedTuple):
    """What a call brings along from where it is made: facts for the child, who hears what it says of them, and for
    which run it is made."""

    facts: Mapping[str, Any]
    listener: Listener | None
    run: str = ""


Carry = Callable[[], Carried | None]


class Call:
    """Ends exactly once: with a value, with an error, or unheard where nobody waits any more."""

    # Set on the object only where it becomes another: most calls are small, and making one is part of their cost.
    key: str | None = None
    """What it is routed by, where calls have keys."""
    items: Items | None = None
    deadline: float = NEVER
    doom: Exception | None = None
    """Why its child is being killed: what the call then fails with."""
    run = ""
    """For which run it was made."""
    losses = 0
    """How often its child died before it had begun."""
    made = 0.0
    begun = 0.0
    """When it was made and when a child began it, on the monotonic clock, where that is told of; 0: it was not."""
    micros: int | None = None
    """How long it ran, as its child says."""
    pid: int | None = None
    """The process that had it last."""
    abandoned = False
    gone: asyncio.Future[None] | None = None
    """Set by who abandons it: done when no process works on it any more."""

    def __init__(
        self,
        call_id: int,
        method: str,
        body: wire.Body,
        *,
        timeout: float | None,
        listener: Listener | None,
        alone: bool,
        future: asyncio.Future[Any],
    ) -> None:
        self.id = call_id
        self.method = method
        self.body = body
        self.timeout = timeout
        self.listener = listener
        self.alone = alone
        """Never sent ahead to a child that is still busy."""
        self.future = future

    def freeze(self) -> None:
        """It has to wait: its large arguments are copied, because whoever made it may change them meanwhile."""
        if isinstance(self.body, Parcel):
            self.body = self.body.frozen()

    def succeed(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)
        if self.items is not None or self.gone is not None:
            self._leave()

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
        self._leave()

    def _leave(self) -> None:
        if self.items is not None:
            self.items.wake()
        if self.gone is not None and not self.gone.done():
            self.gone.set_result(None)

    def abandon(self) -> asyncio.Future[None]:
        """Nobody waits any more. The future is done when no process works on it any more."""
        self.abandoned = True
        if not self.future.cancel() and not self.future.cancelled():
            self.future.exception()  # seen, so that nobody reports it as lost
        if self.gone is None:
            self.gone = asyncio.get_running_loop().create_future()
        return self.gone


class Items:
    """The items of a stream that have arrived and were not taken yet; at most `wire.STREAM_WINDOW`."""

    def __init__(self, call: Call, grant: Callable[[Call, int], None], waiting: Callable[[Call], None]) -> None:
        self._call = call
        self._grant = grant
        self._waiting = waiting
        self._arrived: deque[Any] = deque()
        self._taken = 0
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: Any) -> None:
        self._arrived.append(item)
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def wanted(self) -> bool:
        """Whether the consumer waits for the next item."""
        return self._waiter is not None

    async def next(self) -> Any:
        """The next item. Raises `StopAsyncIteration` at the end and what the stream failed with."""
        while not self._arrived:
            if self._call.future.done():
                self._call.future.result()
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            self._waiting(self._call)
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._taken += 1
        if self._taken == wire.STREAM_WINDOW // 2:
            self._grant(self._call, self._taken)
            self._taken = 0
        return self._arrived.popleft()
