"""(7) Every option of queues, runs and jobs that says more than a word."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dishka import Provider, Scope

from workfleet import (
    App,
    Client,
    Group,
    Job,
    JobContext,
    JobRef,
    JobType,
    Module,
    Queue,
    Rate,
    Retention,
    Unique,
    exponential,
    handler,
    linear,
    own_backoff,
    queue,
)


class Declined(Exception): ...


@dataclass(frozen=True)
class Charge:
    order: str
    tenant: str


LARGE = JobType("large", Charge, queue="charges", max_payload="16MB")


def tiers(attempt: int, error: BaseException | None) -> str:
    return "1h" if isinstance(error, Declined) else f"{attempt}m"


def slowly(attempt: int, error: BaseException | None) -> timedelta:
    return timedelta(minutes=attempt)


class Audit:
    def __init__(self, context: JobContext) -> None:
        self.context = context

    async def note(self, text: str) -> None:
        self.context.log(f"{self.context.name} {self.context.attempt}: {text}")
        await self.context.progress({"trace": self.context.trace, "group": self.context.group})


@queue(
    "charges",
    concurrency=20,
    weight=3,
    fleet_concurrency=100,
    rate_limit="100/1m",
    group=Group(concurrency=1, rate_limit=Rate(10, 1_000), weight=1),
    groups={"gold": Group(weight=5)},
    max_payload="16MB",
)
class Charges:
    @handler(
        attempts=5,
        backoff=slowly,
        retry={
            ConnectionError: exponential("1s", factor=3.0),
            ValueError: None,
            "shop.errors.Declined": "1m",
            OSError: tiers,
        },
    )
    async def charge(self, job: Job[Charge], audit: Audit, context: JobContext) -> str:
        await audit.note(job.group)
        return context.id

    @handler(LARGE, backoff=own_backoff("tiers"))
    async def large(self, job: Job[Charge]) -> None: ...


provider = Provider(scope=Scope.REQUEST)
provider.provide(Audit)
charging = Module(
    "charging", jobs=[Charges], queues=["audits", Queue("reports", weight=2, rate_limit="10/s")], providers=[provider]
)
app = App("options", modules=[charging], backoffs={"tiers": tiers, "slowly": slowly}, queues=[Queue("charges")])


@app.schedule("nightly", cron="0 3 * * *", attempts=3, retry={Declined: linear("1m"), KeyError: None}, backoff=tiers)
async def nightly(context: JobContext) -> str:
    return context.id


async def enqueue(client: Client) -> list[JobRef[str]]:
    job = Charges.charge.job
    one_more = Unique("{data.order}", until="started", exclusive=True, on_conflict="replace")
    first = await client.enqueue(job(Charge("7", "acme"), unique="{data.order}", group="{data.tenant}", expires="10m"))
    window, day = Unique("{data.order}", window="1h"), datetime(2030, 1, 1, tzinfo=UTC)
    second = await client.enqueue(job(Charge("8", "acme"), unique=window, group="gold", expires=day))
    third = await client.enqueue(
        job(
            Charge("9", "acme"),
            unique=one_more,
            retention=Retention(completed="24h", failed=timedelta(days=30), completed_count=100, failed_count=None),
            retry={ConnectionError: "1s", "shop.errors.Declined": None},
            backoff=own_backoff("tiers"),
        )
    )
    replaced: bool = (await client.enqueue(job(Charge("9", "acme"), unique=one_more))).replaced
    assert replaced
    return [first, second, third]
