"""The app's locks: where they are, and made from a session and the lock section."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from workfleet.errors import ConfigError, NotFound, Problem
from workfleet.locks.locks import Locks
from workfleet.ports.stores import Store
from workfleet.settings.loaded import Loaded
from workfleet.settings.sections import LockSettings
from workfleet.stores.open import MEMORY, open_store, split_options
from workfleet.supervision.board import Board

if TYPE_CHECKING:
    from workfleet.modules.module import Module

    from .client import Session


class LockPlace:
    """The store of the locks: the jobs', or another one, opened when it is first needed."""

    def __init__(self, store: Callable[[], Awaitable[Store]], elsewhere: Callable[[], Awaitable[Store]] | None) -> None:
        """`elsewhere` opens the other one, if there is one."""
        self._store, self._elsewhere = store, elsewhere
        self._opening = asyncio.Lock()
        self._opened: Store | None = None

    async def get(self) -> Store:
        """The open store. Raises `StoreUnavailable`."""
        if self._elsewhere is None:
            return await self._store()
        async with self._opening:
            if self._opened is None:
                self._opened = await self._elsewhere()
            return self._opened

    async def close(self) -> None:
        """Close what was opened here."""
        if self._opened is not None:
            await self._opened.close()


def locks_url(loaded: Loaded, app: str, modules: Iterable[Module] | None) -> str | None:
    """The store of the locks, secrets and all, where it is another one than the jobs': that of the Redis client which
    `lock.client` names. What is in memory holds its locks itself. `modules` are None where the code is not known.

    Raises `ConfigError`."""
    name, store = loaded.section("lock", LockSettings).client, loaded.store_url(app)
    if name is None or store == MEMORY:
        return None
    from workfleet.modules.redis import client_url  # a client of a program without modules does without dishka

    try:
        url = client_url(name, modules or (), loaded.core)
    except NotFound as error:
        said = str(error) if modules is not None else _UNKNOWN.format(name=name)
        raise ConfigError(loaded.problem(("lock", "client"), said)) from None
    return None if url == split_options(store)[0] else url


def make_locks(
    session: Session, place: LockPlace, settings: LockSettings | None = None, board: Board | None = None
) -> Locks:
    """The app's locks with these defaults. With a board they are renewed even while user code blocks the loop."""
    settings = settings or session.loaded.section("lock", LockSettings)
    return Locks(
        place.get,
        owner=session.owner,
        clock=session.clock,
        publish=session.publish,
        prefix=settings.key_prefix,
        default_ttl=settings.default_ttl,
        retries=settings.retries,
        retry_delay=settings.retry_delay,
        board=board,
    )


class OpenedLocks:
    """The locks of a program outside a worker, with what was opened for them."""

    def __init__(self, session: Session, modules: Iterable[Module] | None) -> None:
        """`modules` are None where the application's code is not known. Raises `ConfigError`."""
        url = locks_url(session.loaded, session.app, modules)

        async def elsewhere() -> Store:
            assert url is not None
            return await open_store(url, app=session.app, clock=session.clock, create=False)

        self._place = LockPlace(session.store, None if url is None else elsewhere)
        self.locks = make_locks(session, self._place)

    async def now_ms(self) -> int:
        """The time by which they run out. Raises `StoreUnavailable`."""
        return await (await self._place.get()).now_ms()

    async def close(self) -> None:
        """Close what was opened for them."""
        await self.locks.close()
        await self._place.close()


def check_factory(settings: LockSettings, loaded: Loaded) -> None:
    """A factory is called when the supervisor knows already where the locks are. Raises `ConfigError`."""
    if settings.client != loaded.section("lock", LockSettings).client:
        message = "no factory can say where the locks are: say LockModule(client=…), or set WORKER_LOCK__CLIENT"
        raise ConfigError(Problem("lock.client", message, settings.client))


_UNKNOWN = (
    "the application's code says where the Redis client {name!r} is, and that is not known here: "
    "take locks in the application (inject Locks), or name the application"
)
