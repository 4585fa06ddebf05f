"""What the worker document says of the process itself: headless, with its two built-in jobs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import psutil
import pytest

from tests.app.working import Worker, until
from workfleet import App, JobRecord
from workfleet.events import JobLogged, JobSettled

pytestmark = pytest.mark.usefixtures("project")


def settled(worker: Worker, name: str) -> list[JobSettled]:
    return [event for event in worker.told(JobSettled) if event.name == name and event.state == "completed"]


async def of(worker: Worker, name: str) -> list[JobRecord]:
    return [job for job in await worker.jobs() if job.name == name]


async def test_it_announces_its_start_once_and_lives_every_30_s_by_way_of_the_default_queue() -> None:
    async with Worker(App("shop"), name="w7", heartbeat_every="1s") as worker:
        await until(lambda: len(settled(worker, "worker.startup")) == 1)
        await until(lambda: len(settled(worker, "worker.heartbeat")) >= 2)
        (startup,) = await of(worker, "worker.startup")
        first, second, *_ = await of(worker, "worker.heartbeat")
        assert {job.queue for job in (startup, first, second)} == {"worker-default"}
        assert all(job.housekeeping for job in await worker.jobs())
        for job in (startup, first):
            (timestamp,) = msgspec.json.decode(job.payload, type=dict[str, str]).values()
            assert list(msgspec.json.decode(job.payload)) == ["timestamp"]
            assert timestamp.endswith("Z")
        assert {job.metadata["worker"] for job in await of(worker, "worker.heartbeat.scheduler")} == {"w7"}
        lines = [event.line for event in worker.told(JobLogged)]
        assert [line.partition(" at ")[0] for line in lines[:1]] == ["worker startup event processed"]
        by_default = worker.composition.loaded.core.heartbeat_every
    assert str(by_default) == "1s"


async def test_the_heartbeat_can_be_switched_off_by_itself_and_both_with_queueing() -> None:
    async with Worker(App("shop"), heartbeat_every="1s", heartbeat_enabled=False) as worker:
        await until(lambda: settled(worker, "worker.startup"))
        names = {definition.record.name for definition in worker.runtime.definitions}
        assert names == {"worker.startup.scheduler"}
    async with Worker(App("shop"), queue_enabled=False) as worker:
        assert worker.runtime.definitions == []
        assert await worker.jobs() == []


async def test_it_listens_on_no_port(project: Path) -> None:
    def listening() -> set[int]:
        found = psutil.Process().net_connections(kind="inet")
        return {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}

    before = listening()
    async with Worker(App("shop"), store=f"sqlite:///{project}/shop.db") as worker:
        await until(lambda: settled(worker, "worker.startup"))
        assert listening() == before
