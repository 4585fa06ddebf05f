"""The Redis store, put together."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from workfleet.clock import SystemClock
from workfleet.ids import new_token
from workfleet.ports.clock import Clock
from workfleet.ports.pulse import Pulse, PulseRequest

from ..wakes import Wakes
from .address import Address, parse
from .connection import READ_S, Connection
from .dialing import dialer
from .exam import RedisExam
from .fleet import RedisFleet
from .jobs import RedisJobs
from .keys import RedisKeys
from .layout import Layout
from .ledger import RedisLedger
from .listening import Listener
from .locks import RedisLocks
from .markers import BLOCK_S, Markers
from .names import Names
from .peers import Peers, QueuePeers
from .preflight import check_server
from .pulse import Pulses
from .queues import RedisQueues
from .schedules import RedisSchedules
from .session import Session

_CHECKED_MS = 86_400_000


class RedisStore:
    """A `Store` on a Redis or Valkey server. Its time is the server's.

    It has two connections: one for all commands, and one that hears what other processes change; a third one once
    somebody waits for queues; and one for each queue that it claims from, which shows BullMQ's tools who works there.
    """

    def __init__(self, address: Address, session: Session, listener: Listener, clock: Clock) -> None:
        """`clock` goes with the session's time."""
        self.url, self.app = address.shown, session.app
        self._session, self._listener = session, listener
        self.jobs = RedisJobs(session)
        self.queues = RedisQueues(session)
        self.schedules = RedisSchedules(session)
        self.ledger = RedisLedger(session)
        self.locks = RedisLocks(session)
        self.keys = RedisKeys(session)
        self.fleet = RedisFleet(session)
        self._pulses = Pulses(session, self.fleet, self.schedules, clock)
        self._peers = Peers(session)
        self.exam = RedisExam(session, self.queues, self.peers, self.check)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        app: str,
        clock: Clock,
        prefix: str | None = None,
        metrics_minutes: int | None = None,
        test_now_ms: Callable[[], int] | None = None,
    ) -> RedisStore:
        """Connect to a server. It belongs to the running event loop.

        `clock` is what `wait` waits by. `prefix` begins the keys of queues (the app's name). `metrics_minutes`: count
        what ends, for BullMQ's `getMetrics`, and keep so many minutes of it (its `metrics.maxDataPoints`); None counts
        nothing. `test_now_ms` replaces the server's time, for tests.
        Raises `ConfigError` for a URL that cannot be read, `StoreUnavailable` when the server cannot be reached or
        must not be used.
        """
        address = parse(url)
        layout = Layout(app, prefix=prefix, cluster=address.cluster)
        slot_key = layout.app("schedules")
        dial = dialer(address, name=f"workfleet:{quote(app, safe='')}", slot_key=slot_key)
        # Sockets are about real time, also where a test moves the clock.
        real, wakes = SystemClock(), Wakes(clock)

        def named(name: str) -> Connection:
            return Connection(dialer(address, name=name, slot_key=slot_key), store=address.shown, clock=real)

        connection = Connection(dial, store=address.shown, clock=real)
        sender = new_token()
        blocking = Connection(dial, store=address.shown, clock=real, read_s=BLOCK_S + READ_S)
        session = Session(
            app,
            layout,
            connection,
            wakes,
            sender=sender,
            markers=Markers(blocking, connection, layout, wakes, real, sender=sender),
            names=Names(named, layout.prefix, real),
            metrics_minutes=metrics_minutes,
            test_now_ms=test_now_ms,
        )
        listener = Listener(
            dial, wakes, channel=session.channel, sender=session.sender, store=address.shown, clock=real
        )
        store = cls(address, session, listener, real if test_now_ms is None else clock)
        try:
            await check_server(connection, address.shown)
            await listener.start()
        except BaseException:
            await store.close()
            raise
        return store

    async def now_ms(self) -> int:
        return await self._session.now_ms()

    async def pulse(self, request: PulseRequest) -> Pulse:
        return await self._pulses.take(request)

    async def check(self) -> None:
        """Write one key, as a claim does."""
        await self._session.connection.command("SET", self._session.layout.app("checked"), 1, "PX", _CHECKED_MS)

    async def peers(self) -> list[QueuePeers]:
        """Who else uses this app's queues, by the queue's name, as far as the server says. Changes nothing."""
        return await self._peers.of_queues([worker.id for worker in await self.fleet.workers()])

    async def close(self) -> None:
        await self._listener.close()
        await self._session.close()
