"""Destinations of the application's own: what they are given, and whom their troubles harm."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from workfleet import App, LogLine
from workfleet.events import StoreTrouble
from workfleet.model.jobs import JobRecord
from workfleet.observe.logs.context import Bound, job_fields
from workfleet.observe.logs.options import Destination, OwnDestination
from workfleet.observe.logs.own import MOST_WAITING
from workfleet.observe.logs.subscriber import LogSubscriber

from .logging_of import Seconds, documents, logging_of, messages

SHOP = logging.getLogger("shop")
JOB = JobRecord(id="j1", queue="media", name="thumbnail", attempts_made=1)


def own(send: Callable[[LogLine], object] | logging.Handler, level: str | None = None) -> OwnDestination:
    return OwnDestination(name="mine", send=send, level=level)


def test_a_function_is_given_each_line_without_secrets() -> None:
    found: list[LogLine] = []
    with logging_of([own(found.append)]) as stderr:
        with Bound(job_fields(JOB)):
            SHOP.warning("redis://:hunter2@host", extra={"password": "hunter2", "size": 640})
        LogSubscriber().route(StoreTrouble)(StoreTrouble(what="claim", error="redis://:hunter2@h refused"))
        try:
            raise ValueError("token='hunter2'")
        except ValueError:
            SHOP.exception("failed")
    first, event, failed = found
    run = {"job": "thumbnail", "job_id": "j1", "queue": "media", "attempt": 2}
    assert (first.level, first.logger, first.message) == ("warning", "shop", "redis://:***@host")
    assert first.fields == {**run, "password": "***", "size": 640}
    assert first.time.tzinfo is UTC
    assert abs((datetime.now(UTC) - first.time).total_seconds()) < 600
    assert (event.event, event.fields) == ("store.trouble", {"what": "claim", "error": "redis://:***@h refused"})
    assert failed.exception is not None
    assert failed.exception.endswith("ValueError: token='***'")
    assert [line.json() for line in found] == stderr.getvalue().splitlines()


def test_its_level_is_its_own() -> None:
    found: list[LogLine] = []
    with logging_of([own(found.append, "debug")], level="warning") as stderr:
        SHOP.debug("one")
        SHOP.warning("two")
    assert [line.message for line in found] == ["one", "two"]
    assert messages(stderr.getvalue()) == ["two"]


def test_a_handler_of_logging_is_given_records() -> None:
    found: list[tuple[str, int, str, object, object]] = []

    class Mine(logging.Handler):
        closed = 0

        def emit(self, record: logging.LogRecord) -> None:
            text = self.format(record)
            facts = record.__dict__
            found.append((record.name, record.levelno, text, facts.get("password"), facts.get("job_id")))

        def close(self) -> None:
            self.closed += 1
            super().close()

    handler = Mine(logging.WARNING)
    with logging_of([own(handler)]), Bound(job_fields(JOB)):
        SHOP.info("too low for it")
        SHOP.warning("said %s", "password='hunter2'", extra={"password": "hunter2"})
        try:
            raise ValueError("no")
        except ValueError:
            SHOP.exception("failed")
    said, failed = found
    assert said == ("shop", logging.WARNING, "said password='***'", "***", "j1")
    assert failed[2].startswith("failed\nTraceback")
    assert failed[2].endswith("ValueError: no")
    assert handler.closed == 1


@pytest.mark.parametrize("error", [RuntimeError("no network, token='hunter2'"), SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("form", ["function", "handler"])
def test_one_that_raises_is_told_of_once_a_minute_and_tried_with_each_line(error: BaseException, form: str) -> None:
    clock, tried, done = Seconds(), list[str](), threading.Semaphore(0)

    def fail(message: str) -> None:
        tried.append(message)
        done.release()
        raise error

    class Mine(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                fail(record.getMessage())
            except Exception:
                self.handleError(record)

    send = Mine() if form == "handler" else lambda line: fail(line.message)
    with logging_of([own(send)], monotonic=clock) as stderr:
        for wait in (0, 59, 1, 1):
            clock.now += wait
            SHOP.info("at %d", clock.now)
            assert done.acquire(timeout=30)
    assert tried == ["at 1000", "at 1059", "at 1060", "at 1061"]
    said = [line for line in documents(stderr.getvalue()) if "event" in line]
    assert [(line["destination"], line["lost"]) for line in said] == [("mine", 1), ("mine", 2), ("mine", 1)]
    assert all(type(error).__name__ in line["error"] for line in said[:2])
    assert "hunter2" not in stderr.getvalue()
    assert [message for message in messages(stderr.getvalue()) if message.startswith("at ")] == tried


def test_one_that_hangs_holds_up_nobody_and_drops_what_it_does_not_take() -> None:
    begun, go_on, taken = threading.Event(), threading.Event(), list[str]()

    def hang(line: LogLine) -> None:
        taken.append(line.message)
        begun.set()
        assert go_on.wait(60)

    with logging_of([own(hang)]) as stderr:
        SHOP.info("the first")
        assert begun.wait(60)
        for number in range(MOST_WAITING + 5):
            SHOP.info("%d", number)
        waiting = [line for line in documents(stderr.getvalue()) if "event" in line]
        go_on.set()
    assert [(line["event"], line["waiting"]) for line in waiting] == [("log.dropped", MOST_WAITING)]
    assert taken[: MOST_WAITING + 1] == ["the first", *map(str, range(MOST_WAITING))]
    recovered = [line for line in documents(stderr.getvalue()) if line.get("event") == "log.recovered"]
    # Of the six that it did not take, one is the line that it drops.
    assert [line["lost"] for line in recovered] == [6]


def test_at_the_end_it_has_only_so_much_time() -> None:
    never = threading.Event()
    with logging_of([own(lambda line: never.wait(60))], close_s=0.2) as stderr:
        for number in range(3):
            SHOP.info("%d", number)
    never.set()
    (told,) = [line for line in documents(stderr.getvalue()) if "event" in line]
    assert told["message"].startswith("log destination mine fails, and has lost ")
    assert told["message"].endswith("it had not taken them 0.1 s after the end")


def test_what_is_waiting_at_the_end_is_sent() -> None:
    go_on, taken = threading.Event(), list[str]()

    def slow(line: LogLine) -> None:
        assert go_on.wait(60)
        taken.append(line.message)

    with logging_of([own(slow)]):
        for number in range(100):
            SHOP.info("%d", number)
        go_on.set()
    assert taken == [str(number) for number in range(100)]


def test_destinations_that_log_do_not_go_on_for_ever() -> None:
    first, second = list[str](), list[str]()

    def log_too(line: LogLine) -> None:
        first.append(line.message)
        logging.getLogger("courier").warning("sent %s", line.message)

    def log_as_well(line: LogLine) -> None:
        second.append(line.message)
        logging.getLogger("post").warning("posted %s", line.message)

    two = [own(log_too), OwnDestination(name="other", send=log_as_well)]
    with logging_of(two, destinations={"stderr": Destination()}) as stderr:
        SHOP.info("one")
    assert (first, second) == (["one"], ["one"])
    assert sorted(messages(stderr.getvalue())) == ["one", "posted one", "sent one"]


def test_a_module_takes_functions_and_handlers() -> None:
    app = App("shop")

    @app.log_destination("mine", level="warning")
    def mine(line: LogLine) -> None: ...

    handler = app.log_destination("theirs")(logging.NullHandler())
    assert [(each.name, each.send, each.level) for each in app.log_destinations] == [
        ("mine", mine, "warning"),
        ("theirs", handler, None),
    ]


def test_a_module_refuses_what_cannot_be_one() -> None:
    app = App("shop")
    with pytest.raises(ValueError, match="needs a name: ' '"):
        app.log_destination(" ")
    with pytest.raises(ValueError, match="level='loud': it is one of debug, info"):
        app.log_destination("mine", level="loud")

    async def no_plain_function(line: LogLine) -> None: ...

    with pytest.raises(ValueError, match="a plain function of one line"):
        app.log_destination("mine")(no_plain_function)
    assert app.log_destinations == []
