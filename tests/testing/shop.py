"""A small shop that the tests of `Fleet` run: a queue, its mail server, a session for each run, and schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from dishka import Provider, Scope
from pydantic import BaseModel

from workfleet import App, Job, JobType, Module, NewJob, exponential, handler, locked, queue, schedule


@dataclass(frozen=True)
class Welcome:
    user_id: int


@dataclass(frozen=True)
class Receipt:
    message_id: str


WELCOME = JobType("welcome", Welcome, Receipt, queue="emails")


class MailSettings(BaseModel):
    host: str = "localhost"
    port: int = 25


class Smtp:
    """The real mail server: no test may reach it."""

    async def send(self, user_id: int) -> str:
        raise AssertionError("the real mail server was asked")


@dataclass
class FakeSmtp(Smtp):
    sent: list[int] = field(default_factory=list)
    failing: int = 0
    """How many of the next calls fail."""

    async def send(self, user_id: int) -> str:
        if self.failing:
            self.failing -= 1
            raise ConnectionError("the mail server is down")
        self.sent.append(user_id)
        return f"m{user_id}"


class Session:
    def __init__(self) -> None:
        self.open = True


class Sessions:
    """What was opened and closed."""

    def __init__(self) -> None:
        self.made: list[Session] = []


class Mail(Provider):
    scope = Scope.APP

    def __init__(self) -> None:
        super().__init__()
        self.provide(Smtp)
        self.provide(Sessions)
        self.provide(self.session, scope=Scope.REQUEST)

    async def session(self, sessions: Sessions) -> AsyncIterator[Session]:
        session = Session()
        sessions.made.append(session)
        yield session
        session.open = False


@queue("emails", concurrency=2)
class Emails:
    def __init__(self, smtp: Smtp, settings: MailSettings) -> None:
        self.smtp, self.settings = smtp, settings

    @handler(WELCOME, attempts=3, backoff=exponential("1s"))
    async def welcome(self, job: Job[Welcome], session: Session) -> Receipt:
        assert session.open
        job.log(f"by {self.settings.host}:{self.settings.port}")
        return Receipt(await self.smtp.send(job.data.user_id))

    @handler("goodbye", attempts=1)
    async def goodbye(self, job: Job[Welcome]) -> None:
        await self.smtp.send(-job.data.user_id)

    @handler("invite")
    async def invite(self, job: Job[list[int]]) -> list[NewJob[Receipt]]:
        return [WELCOME(Welcome(user_id)) for user_id in job.data]


class Cleanup:
    def __init__(self) -> None:
        self.slots: list[str] = []

    @schedule(cron="30 2 * * *", timezone="Europe/Berlin")
    @locked("cleanup", ttl="1h")
    async def nightly(self, job: Job[None]) -> None:
        assert job.slot is not None
        self.slots.append(job.slot.isoformat())


@schedule(every="15m")
async def remind() -> NewJob[Receipt]:
    return WELCOME(Welcome(1))


def make_app() -> App:
    """A new one for each test, because an app collects what is declared on it."""
    mail = Module("mail", providers=[Mail()], jobs=[Emails, Cleanup, remind], settings=MailSettings)
    return App("shop", modules=[mail])
