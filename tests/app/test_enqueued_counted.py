"""Every job that a worker puts into the store is counted once, whoever made it."""

from pathlib import Path

import pytest

from tests.app.working import Worker, until
from workfleet import App, Client, Job, JobType, NewJob, handler, queue, schedule
from workfleet.events import JobSettled, ScheduleFired
from workfleet.observe.metrics.recorder import ENQUEUED

pytestmark = pytest.mark.usefixtures("project")

WELCOME = JobType("welcome", int, None, queue="mails")


@queue("mails")
class Mails:
    @handler(WELCOME)
    async def welcome(self, job: Job[int]) -> None: ...

    @handler()
    async def fan_out(self, job: Job[int]) -> list[NewJob[int]]:
        """Makes four, of which three are new: the third finds its key held, within the same answer."""
        held = [WELCOME(number, unique="{name}", delay="1h") for number in (1, 2)]
        return [WELCOME(0), *held, WELCOME(3)]

    @handler()
    async def by_client(self, job: Job[int], client: Client) -> None:
        await client.enqueue(WELCOME(4))
        await client.enqueue(WELCOME(5, unique="{name}", delay="1h"))

    @schedule("nightly", every="1d", run_on_start=True)
    async def nightly(self) -> NewJob[int]:
        return WELCOME(6)

    @schedule("often", every="1s")
    async def often(self) -> None: ...


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
async def test_what_clients_handlers_and_schedules_make(project: Path, url: str) -> None:
    store = url if url == "memory://" else f"sqlite:///{project}/jobs.db"
    async with Worker(App("shop", jobs=[Mails]), store=store) as worker:

        def ended(name: str) -> int:
            return sum(event.name == name for event in worker.told(JobSettled))

        def fired() -> int:
            return sum(event.schedule == "often" for event in worker.told(ScheduleFired))

        def counted() -> dict[tuple[str, str], float]:
            samples = worker.runtime.registry.snapshot()
            return {tuple(value for _, value in s.labels): s.value for s in samples if s.name == ENQUEUED}  # type: ignore[misc]

        await until(lambda: ended("nightly") == 1 and fired())
        await (await worker.client.enqueue(Mails.fan_out.job(1))).result(timeout="30s")
        await (await worker.client.enqueue(Mails.by_client.job(1))).result(timeout="30s")
        assert (await worker.client.schedules.trigger("nightly")).accepted
        await until(lambda: (ended("nightly"), ended("welcome")) == (2, 5))
        found = counted()
        assert found.pop(("often", "shop-schedules")) == fired()
        assert found == {
            ("fan_out", "mails"): 1,
            ("by_client", "mails"): 1,
            ("nightly", "shop-schedules"): 2,
            ("welcome", "mails"): 6,
        }
