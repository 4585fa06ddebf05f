"""Programs of other makes at the same queues: a worker that starts tells of what they may break."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.working import Worker
from tests.stores.redis.servers import Server
from workfleet import App
from workfleet.events import StoreWarned


async def test_a_fifth_version_of_bullmq_is_told_of_at_the_start(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = Server(tmp_path_factory.mktemp("s"))
    server.start()
    try:
        said = {"store": server.url, "queue_prefix": "bull"}
        async with Worker(App("shop"), **said) as worker:
            assert worker.told(StoreWarned) == []
        server.ask("HSET", "bull:worker-default:meta", "version", "bullmq:5.81.3")
        async with Worker(App("shop"), **said) as worker:
            (told,) = worker.told(StoreWarned)
    finally:
        server.stop()
    assert told.check == "BullMQ 5"
    assert told.said.startswith("bullmq:5.81.3 uses queue 'worker-default': pausing and resuming by BullMQ 5")
