"""What code in a pool's child measures is counted by its worker."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import Project
from workfleet.app.child_metrics import Address, MetricsInbox, MetricsOutbox
from workfleet.observe.metrics.registry import DROPPED, MetricsRegistry
from workfleet.ports.metrics import MetricRow

APP = """
from workfleet import App, Client, Job, Metrics, Pool, process, public


@process("images", size=1)
class Images:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        metrics.define("image_pixels", "histogram", buckets=[10, 100])
        metrics.gauge("images_ready", 1)

    @public
    def resize(self, pixels: int) -> int:
        self._metrics.histogram("image_pixels", pixels)
        self._metrics.counter("images_total", labels={"where": "child"})
        return pixels


app = App("shop", jobs=[Images])


@app.handler("draw", queue="images")
async def draw(job: Job[int], images: Pool[Images], metrics: Metrics) -> int:
    metrics.counter("images_total", labels={"where": "worker"})
    return await images.resize(job.data)


@app.handler("compute", queue="images", pool="cpu")
def compute(job: Job[int], metrics: Metrics) -> None:
    metrics.counter("computed_total", job.data)


@app.handler("spread", queue="images", pool="cpu")
async def spread(job: Job[int], client: Client) -> None:
    await client.enqueue_many([compute.job(0), compute.job(0, id="twin"), compute.job(0, id="twin")])
"""


def values(registry: MetricsRegistry) -> dict[str, float]:
    return {each.name: each.value for each in registry.snapshot()}


async def arrived(registry: MetricsRegistry, name: str, value: float) -> None:
    async with asyncio.timeout(30):
        while values(registry).get(name) != value:
            await asyncio.sleep(0.01)


def test_what_is_measured_in_a_child_is_counted_by_its_worker(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("app.py", APP)
    project.write("workfleet.yaml", "app: app.py\n")
    project.make_store("shop")
    for number in (5, 50, 500):
        assert project("enqueue", "images", "draw", str(number)).code == 0
    for number in (1, 2):
        assert project("enqueue", "images", "compute", str(number)).code == 0
    assert project("enqueue", "images", "spread", "1").code == 0
    ran = project("run", "--until-idle")
    assert ran.code == 0, ran.err
    found = {
        (each["name"], each["labels"].get("where")): each
        for each in project("metrics", "export", "--format", "json").documents
    }
    assert found["images_total", "child"]["value"] == found["images_total", "worker"]["value"] == 3
    assert found["image_pixels", None]["buckets"] == {"10.0": 1, "100.0": 1, "+Inf": 1}
    assert found["computed_total", None]["value"] == 3
    assert found["images_ready", None]["value"] == 1
    enqueued = found["workfleet_jobs_enqueued_total", None]
    assert (enqueued["labels"], enqueued["value"]) == ({"job": "compute", "queue": "images"}, 2)


async def test_it_is_sent_soon_and_once_more_at_the_end() -> None:
    registry, child = MetricsRegistry(), MetricsRegistry()
    inbox = MetricsInbox(registry)
    outbox = MetricsOutbox(child, inbox.address)
    child.counter("x_total", 2)
    await arrived(registry, "x_total", 2)
    for number in range(300):
        child.counter("many_total", labels={"n": str(number)})
    child.counter("x_total")
    await asyncio.to_thread(outbox.close)
    inbox.close()
    assert values(registry)["x_total"] == 3
    assert sum(each.value for each in registry.snapshot() if each.name == "many_total") == 300


async def test_what_the_worker_does_not_take_is_kept_until_it_does() -> None:
    child = MetricsRegistry()
    outbox = MetricsOutbox(child, Address("\0workfleet-nobody-listens-here", "s"))
    child.counter("x_total", 2)
    await asyncio.to_thread(outbox.send)
    registry = MetricsRegistry()
    inbox = MetricsInbox(registry)
    outbox._address = inbox.address
    child.counter("y_total")
    await arrived(registry, "y_total", 1)
    assert values(registry) == {"x_total": 2, "y_total": 1}
    await asyncio.to_thread(outbox.close)
    inbox.close()


async def test_rows_too_long_for_one_message_go_in_several_and_one_that_is_too_long_alone_is_counted() -> None:
    registry, child = MetricsRegistry(), MetricsRegistry()
    inbox = MetricsInbox(registry)
    outbox = MetricsOutbox(child, inbox.address)
    child.define("huge", "histogram", buckets=[number / 7 for number in range(100_000)])
    child.histogram("huge", 1)
    for number in range(200):
        child.counter("many_total", labels={"n": f"{number}" + "\x01" * 1_000})
    child.counter("x_total")
    await arrived(registry, DROPPED, 1)
    await asyncio.to_thread(outbox.close)
    inbox.close()
    found = [(each.name, each.value) for each in registry.snapshot()]
    assert (found.count(("many_total", 1)), found.count(("x_total", 1))) == (200, 1)
    dropped = [each.labels for each in registry.snapshot() if each.name == DROPPED]
    assert dropped == [(("reason", "too_large"),)]


async def test_what_a_child_cannot_keep_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workfleet.app.child_metrics._MOST_KEPT", 3)
    registry, child = MetricsRegistry(), MetricsRegistry()
    outbox = MetricsOutbox(child, Address("\0workfleet-nobody-listens-here", "s"))
    for number in range(5):
        child.add("many_total", (("n", str(number)),))  # as the thread is not told
    await asyncio.to_thread(outbox.send)
    inbox = MetricsInbox(registry)
    outbox._address = inbox.address
    await asyncio.to_thread(outbox.send)
    inbox.read()
    assert sorted(each.labels[0][1] for each in registry.snapshot()) == ["2", "3", "4", "buffer_full"]
    assert values(registry)[DROPPED] == 2
    await asyncio.to_thread(outbox.close)
    inbox.close()


async def test_only_those_who_know_the_secret_are_heard() -> None:
    registry = MetricsRegistry()
    inbox = MetricsInbox(registry)
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    row = MetricRow(name="x_total", kind="counter", labels=(), at_ms=0, value=1)
    for message in (
        b"nonsense",
        msgspec.json.encode({"secret": "guessed", "rows": [row]}),
        msgspec.json.encode({"secret": inbox.address.secret, "rows": [row]}),
    ):
        stranger.sendto(message, inbox.address.place)
    await arrived(registry, "x_total", 1)
    inbox.close()
    with pytest.raises(OSError, match=r"refused|No such file"):
        stranger.sendto(b"x", inbox.address.place)
    stranger.close()
    assert not os.path.exists(inbox.address.place.strip("\0"))


def test_a_name_that_means_something_else_here_is_dropped_and_counted() -> None:
    registry = MetricsRegistry()
    registry.counter("a")
    registry.define("h", "histogram", buckets=[1])
    histogram = MetricRow(
        name="h", kind="histogram", labels=(), at_ms=0, value=3, count=1, bounds=(2.0,), buckets=(0, 1)
    )
    gauge = MetricRow(name="a", kind="gauge", labels=(), at_ms=0, value=7)
    registry.absorb([gauge, histogram, MetricRow(name="a", kind="counter", labels=(), at_ms=0, value=2)])
    found = {(each.name, each.labels): each.value for each in registry.snapshot()}
    assert found["a", ()] == 3
    assert found[DROPPED, (("reason", "conflict"),)] == 2
