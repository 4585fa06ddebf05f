"""Listeners are told of runs after the fact: of what they asked for, once, in order, and at nobody else's cost."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pytest

from tests.app.mailing import Log, Resources, Session
from tests.app.working import Worker, start_problems, until
from workfleet import App, Fail, Job, JobContext, JobType, Module, RunEvent, Snooze
from workfleet.events import (
    Event,
    JobLogged,
    ListenerDropped,
    ListenerFailed,
    ScheduleCoalesced,
    ScheduleMissed,
    ScheduleSkipped,
    SubscriberFailed,
)
from workfleet.model.runs import RUN_KINDS
from workfleet.testing import Fleet

pytestmark = pytest.mark.usefixtures("project")


WORK = JobType("work", str, queue="work")
A_LISTENER = "a listener is for start, success, failure, retry, skip, miss, or for classes of events"


def shop(*modules: Module) -> App:
    app = App("shop", modules=modules)

    @app.handler(WORK, attempts=2, backoff="1ms")
    async def work(job: Job[str]) -> str:
        if job.data == "fail":
            raise Fail("no way")
        if job.data == "retry" and job.attempt == 1:
            raise ValueError("not yet")
        if job.data == "later":
            raise Snooze("1h")
        return job.data

    @app.schedule("tick", every="1d")
    async def tick() -> None: ...

    return app


async def enqueue(worker: Worker, *what: str) -> None:
    for each in what:
        await worker.client.enqueue(WORK(each))


async def test_each_kind_reaches_who_asked_for_it_once() -> None:
    app, heard = shop(), {kind: list[RunEvent]() for kind in RUN_KINDS}
    for kind in RUN_KINDS:
        listen(app, kind, heard[kind])
    async with Worker(app, heartbeat_enabled=False) as worker:
        await enqueue(worker, "fine", "fail", "retry", "later")
        await until(lambda: len(heard["success"]) == 2 and heard["failure"] and len(heard["start"]) == 5)
        worker.runtime.bus.publish(ScheduleSkipped(schedule="tick", slot_ms=5, reason="holiday"))
        worker.runtime.bus.publish(ScheduleCoalesced(schedule="tick", slot_ms=7, reason="j waits", job_id="j"))
        worker.runtime.bus.publish(ScheduleMissed(schedule="tick", slot_ms=6, count=3, reason="nobody"))
        await until(lambda: heard["miss"])
    # The product's own jobs, which say at the start that a worker lives, are nobody's; one that snoozes has not ended.
    assert {event.name for event in heard["start"]} == {"work"}
    assert [(e.attempt, e.outcome, e.error) for e in heard["failure"]] == [(1, "failed", "no way")]
    (retry,) = heard["retry"]
    assert (retry.attempt, retry.outcome, retry.error) == (1, "failed", "ValueError: not yet")
    assert retry.delay_ms is not None
    assert [event.attempt for event in heard["success"]] == [1, 2]
    assert all(event.queue == "work" and event.job_id and event.schedule is None for event in heard["success"])
    (skip, coalesced), (miss,) = heard["skip"], heard["miss"]
    assert (coalesced.outcome, coalesced.error, coalesced.job_id) == ("coalesced", "j waits", "j")
    assert (skip.schedule, skip.slot_ms, skip.error, skip.job_id) == ("tick", 5, "holiday", None)
    assert (miss.schedule, miss.slot_ms, miss.count, miss.error) == ("tick", 6, 3, "nobody")
    assert skip.slot is not None
    assert skip.slot.isoformat() == "1970-01-01T00:00:00.005000+00:00"


def listen(app: App, kind: Any, heard: list[RunEvent]) -> None:
    @app.listener(kind)
    async def hear(event: RunEvent) -> None:
        assert event.kind == kind
        heard.append(event)


async def test_one_listener_of_several_kinds_hears_them_in_the_order_of_what_happened() -> None:
    app, heard = shop(), list[str]()

    @app.listener("start", "retry", "success")
    async def hear(event: RunEvent) -> None:
        await asyncio.sleep(0)
        heard.append(f"{event.kind} {event.attempt}")

    async with Worker(app, heartbeat_enabled=False) as worker:
        await enqueue(worker, "retry")
        await until(lambda: len(heard) == 4)
    assert heard == ["start 1", "retry 1", "start 2", "success 2"]


async def test_parameters_are_injected_and_plain_functions_run_in_a_thread() -> None:
    log, threads = Log(), list[str]()
    mail = Module("mail", providers=[Resources(log)])

    @mail.listener("success")
    def hear(log: Log, event: RunEvent, session: Session) -> None:
        threads.append(threading.current_thread().name)
        log.append(f"{event.name} in session {session.number}")

    async with Worker(shop(mail), heartbeat_enabled=False) as worker:
        await enqueue(worker, "1", "2")
        await until(lambda: len(threads) == 2)
    of_calls = [line for line in log if "session" in line]
    assert of_calls == [
        *("open session 1", "work in session 1", "close session 1"),
        *("open session 2", "work in session 2", "close session 2"),
    ]
    assert threads[0].startswith("workfleet-handler")


async def test_one_that_fails_is_told_and_harms_nobody() -> None:
    app, heard = shop(), list[str]()

    @app.listener("success")
    async def fails(event: RunEvent) -> None:
        raise KeyError("gone")

    @app.listener("success")
    def leaves() -> None:
        raise SystemExit(3)

    @app.listener("success")
    async def hears(event: RunEvent) -> None:
        heard.append(event.kind)

    async with Worker(app, heartbeat_enabled=False) as worker:
        await enqueue(worker, "fine", "fine too")
        await until(lambda: len(heard) == 2 and len(worker.told(ListenerFailed)) == 4)
        assert [job.outcome for job in await worker.jobs(queue="work")] == ["completed"] * 2
    told = {(each.listener.rpartition(".")[2], each.kind, each.error) for each in worker.told(ListenerFailed)}
    assert told == {("fails", "success", "KeyError: 'gone'"), ("leaves", "success", "SystemExit: 3")}


async def test_one_that_hangs_is_ended_and_goes_on_with_the_next_event() -> None:
    app, heard = shop(), list[str]()

    @app.listener("success", timeout="50ms")
    async def hangs(event: RunEvent) -> None:
        heard.append("begun")
        await asyncio.Event().wait()

    @app.listener("success")
    async def hears(event: RunEvent) -> None:
        heard.append("heard")

    async with Worker(app, heartbeat_enabled=False) as worker:
        await enqueue(worker, "fine", "fine too")
        await until(lambda: len(worker.told(ListenerFailed)) == 2)
    assert sorted(heard) == ["begun", "begun", "heard", "heard"]
    assert {each.error for each in worker.told(ListenerFailed)} == {"it took longer than its 50 ms"}
    assert worker.told(ListenerDropped) == []
    assert worker.stopped is not None
    assert worker.stopped.refused == ()


async def test_a_thread_that_hangs_is_told_of_nothing_until_it_returns() -> None:
    app, heard, release = shop(), list[str](), threading.Event()

    @app.listener("success", timeout="20ms")
    def hangs(event: RunEvent) -> None:
        heard.append("begun")
        release.wait(20)

    async with Worker(app, heartbeat_enabled=False) as worker:
        await enqueue(worker, "1")
        await until(lambda: worker.told(ListenerFailed))
        (failed,) = worker.told(ListenerFailed)
        assert failed.error == "it took longer than its 20 ms; it goes on, and is told of nothing until it returns"
        await enqueue(worker, "2", "3")
        (line,) = worker.runtime.aftermath._lines
        await until(lambda: line._dropped == 2)
        assert heard == ["begun"]
        release.set()
        await until(lambda: line._hanging is None or line._hanging.done())
        await enqueue(worker, "4")
        await until(lambda: len(heard) == 2)
    (dropped,) = worker.told(ListenerDropped)
    assert dropped.count == 2


async def test_what_happened_at_the_end_is_told_before_the_process_ends() -> None:
    app, heard, running = App("shop"), list[str](), asyncio.Event()

    @app.handler("work", queue="work")
    async def work(job: Job[None]) -> None:
        running.set()
        await asyncio.sleep(0.1)

    @app.listener("success")
    async def hear(event: RunEvent) -> None:
        await asyncio.sleep(0.05)
        heard.append(event.kind)

    async with Worker(app, heartbeat_enabled=False) as worker:
        await worker.client.enqueue(work.job())
        await running.wait()
    assert heard == ["success"]


async def test_one_that_hangs_at_the_end_does_not_hold_up_the_stop() -> None:
    app, running = shop(), asyncio.Event()

    @app.listener("success")
    async def hangs(event: RunEvent) -> None:
        running.set()
        await asyncio.Event().wait()

    async with Worker(app, stop_ms=500, heartbeat_enabled=False) as worker:
        await enqueue(worker, "1", "2")
        await running.wait()
        await until(lambda: worker.runtime.exchange.totals["completed"] == 2)
    (failed,) = worker.told(ListenerFailed)
    assert failed.kind == "end of the process"
    assert worker.stopped is not None
    assert worker.stopped.refused == ()


async def test_a_fleet_of_a_test_has_told_all_when_it_is_idle() -> None:
    app, heard = shop(), list[str]()

    @app.listener("failure", "success")
    async def hear(event: RunEvent) -> None:
        heard.append(f"{event.schedule} {event.kind}")

    async with Fleet(app, now="2027-03-27T12:00Z") as fleet:
        await fleet.travel("1d")
        assert heard == ["tick success"]


async def test_wrong_parameters_are_found_at_the_start() -> None:
    app = shop()

    @app.listener("start")
    async def a_job(job: Job[str]) -> None: ...

    @app.listener("start")
    async def a_context(context: JobContext) -> None: ...

    @app.listener("start")
    async def nobodys(log: Log) -> None: ...

    @app.listener("start")
    async def untyped(event) -> None: ...  # type: ignore[no-untyped-def]

    found = await start_problems(app)
    assert len(found) == 4
    for name, message in found.items():
        function = name.rpartition(".")[2]
        expected = {
            "a_job": "a listener has no job: take `event: RunEvent`, which says what it was",
            "a_context": "a listener has no job: take `event: RunEvent`, which says what it was",
            "nobodys(log)": "nothing provides Log: add a provider to a module, or fix the type hint",
            "untyped": "the parameter 'event' has no type hint",
        }
        assert message == expected[function]


@pytest.mark.parametrize(
    ("kinds", "options", "message"),
    [
        ((), {}, f"{A_LISTENER}: it names none"),
        (("error",), {}, f"{A_LISTENER}: 'error' is none of them"),
        (("start",), {"timeout": "0s"}, "timeout='0s': a listener needs some time"),
    ],
)
def test_what_is_no_listener_is_refused_where_it_is_written(kinds: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        App("shop").listener(*kinds, **options)


async def test_a_listener_of_events_hears_those_that_it_names_in_their_order() -> None:
    app, heard = App("shop"), list[object]()

    @app.listener(ScheduleSkipped, ScheduleMissed)
    async def hear(event: ScheduleSkipped | ScheduleMissed, log: Log) -> None:
        heard.append(event)

    @app.listener(ScheduleMissed)
    def count(event: Event) -> None:
        heard.append(event.wire_name)

    app.providers = (Resources(Log()),)
    said = [
        ScheduleSkipped(schedule="a", slot_ms=5, reason="holiday"),
        ScheduleCoalesced(schedule="a", slot_ms=7, reason="j waits", job_id="j"),
        ScheduleMissed(schedule="a", slot_ms=6, count=3, reason="nobody"),
    ]
    async with Worker(app, heartbeat_enabled=False) as worker:
        for event in said:
            worker.runtime.bus.publish(event)
        await until(lambda: len(heard) == 3)
    assert [each for each in heard if isinstance(each, Event)] == [said[0], said[2]]
    assert "schedule.missed" in heard


async def test_what_code_in_a_thread_says_is_heard_at_once() -> None:
    """That thread goes on only when the listener has heard of it."""
    asyncio.get_running_loop().set_debug(True)  # it then refuses what is not meant for other threads
    app, heard, gate = App("shop"), list[str](), threading.Event()

    @app.handler(queue="mails")
    def send(job: Job[None]) -> bool:
        job.log("dialling")
        return gate.wait(30)

    @app.listener(JobLogged, JobLogged)
    async def hear(event: JobLogged) -> None:
        heard.append(event.line)
        gate.set()

    async with Worker(app, heartbeat_enabled=False, scheduler_enabled=False) as worker:
        ref = await worker.client.enqueue(send.job(None))
        assert await ref.result(timeout="60s") is True
    assert heard == ["dialling"], "once, though its class was named twice"
    assert worker.told(SubscriberFailed) == []


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        (("failure", ScheduleMissed), "not for both"),
        ((str,), "str is no event"),
        ((Event,), "Event is no event"),
        ((ListenerFailed,), "would hear of itself"),
    ],
)
def test_what_is_no_event_is_refused(kinds: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        App("shop").listener(*kinds)


async def test_a_listener_whose_parameter_does_not_fit_stops_the_start() -> None:
    app = App("shop")

    @app.listener(ScheduleMissed)
    async def hear(event: RunEvent) -> None: ...

    @app.listener("failure")
    async def other(event: ScheduleMissed) -> None: ...

    problems = await start_problems(app)
    assert list(problems.values()) == [
        "it is never told of a RunEvent: its listener names others",
        "it is never told of a ScheduleMissed: its listener names others",
    ]
