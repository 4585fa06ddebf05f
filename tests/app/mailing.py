"""Resources of a process and of a run that tell when they are opened and closed, and handlers that take them."""

from collections.abc import AsyncIterator
from typing import Any

from dishka import Provider, Scope, provide

from workfleet import (
    App,
    Job,
    Module,
    handler,
)


class Smtp:
    def __init__(self, log: list[str]) -> None:
        self.log = log


class Session:
    def __init__(self, number: int) -> None:
        self.number = number


class Log(list[str]):
    """What happened, in order. It is given to the graph as a ready object."""


class Resources(Provider):
    """Two of the process (the second needs the first), one of each run."""

    def __init__(self, log: Log, fail_at: str = "") -> None:
        super().__init__()
        self.log, self.fail_at, self.sessions = log, fail_at, 0

    @provide(scope=Scope.APP)
    def log_of(self) -> Log:
        return self.log

    @provide(scope=Scope.APP)
    async def database(self) -> AsyncIterator[dict[str, str]]:
        self._step("open database")
        yield {}
        self._step("close database")

    @provide(scope=Scope.APP)
    async def smtp(self, database: dict[str, str]) -> AsyncIterator[Smtp]:
        self._step("open smtp")
        yield Smtp(self.log)
        self._step("close smtp")

    @provide(scope=Scope.REQUEST)
    async def session(self, database: dict[str, str]) -> AsyncIterator[Session]:
        self.sessions += 1
        number = self.sessions
        self._step(f"open session {number}")
        yield Session(number)
        self._step(f"close session {number}")

    def _step(self, what: str) -> None:
        self.log.append(what)
        if what == self.fail_at:
            raise RuntimeError(f"{what} failed")


class Emails:
    def __init__(self, smtp: Smtp) -> None:
        self.smtp = smtp

    @handler()
    async def send(self, job: Job[int], session: Session, smtp: Smtp) -> str:
        assert smtp is self.smtp
        return f"session {session.number}"

    @handler()
    def in_thread(self, job: Job[int], session: Session) -> str:
        return f"session {session.number}"

    @handler()
    async def fails(self, job: Job[int], session: Session) -> None:
        raise ValueError("no")


def app_of(*jobs: Any, log: Log | None = None, fail_at: str = "", **facts: Any) -> App:
    resources = Resources(Log() if log is None else log, fail_at)
    return App("x", modules=[Module("mail", providers=[resources], jobs=list(jobs))], **facts)
