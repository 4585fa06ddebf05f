"""Every event is a log line, in two forms, with the running job in user code's own lines too."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import structlog
from structlog.contextvars import STRUCTLOG_KEY_PREFIX, bound_contextvars, merge_contextvars

from workfleet import events
from workfleet.errors import UsageError
from workfleet.model.jobs import JobRecord
from workfleet.observe.logs.context import Bound, current_job, job_fields
from workfleet.observe.logs.options import LogOptions
from workfleet.observe.logs.setup import LogSetup, configure_logging
from workfleet.observe.logs.subscriber import LogSubscriber

JOB = JobRecord(id="j1", queue="media", name="thumbnail", attempts_made=1, schedule="scan", slot_ms=1_800_000_000_000)
SETTLED = events.JobSettled(
    id="j1", name="thumbnail", queue="media", state="completed", outcome="completed", attempt=2, duration_ms=12
)


class Log:
    """The log of one test, in a stream."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.setups: list[LogSetup] = []

    def configure(self, **options: Any) -> None:
        self.setups.append(configure_logging(LogOptions(**options), stream=self.stream))

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]


def tell(event: events.Event) -> None:
    LogSubscriber().route(type(event))(event)


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    yield log
    for setup in reversed(log.setups):
        setup.close()
    structlog.reset_defaults()


def test_an_event_as_json(log: Log) -> None:
    log.configure(format="json")
    tell(SETTLED)
    (line,) = log.documents()
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "workfleet.job",
        "message": "thumbnail completed after 12 ms",
        "event": "job.settled",
        "job_id": "j1",
        "job": "thumbnail",
        "queue": "media",
        "state": "completed",
        "outcome": "completed",
        "attempt": 2,
        "duration_ms": 12,
        "delay_ms": 0,
        "housekeeping": False,
    }


def test_an_event_for_people_shows_only_what_the_message_does_not_say(log: Log) -> None:
    log.configure(format="console")
    tell(SETTLED)
    tell(msgspec.structs.replace(SETTLED, state="delayed", outcome="failed", error="ValueError: no", delay_ms=9))
    failed = f"{'thumbnail failed after 12 ms: ValueError: no; again in 9 ms':52}"
    assert [line[13:] for line in log.lines()] == [
        f"info     {'thumbnail completed after 12 ms':52} job_id=j1 queue=media attempt=2",
        f"warning  {failed} job_id=j1 queue=media state=delayed attempt=2 delay_ms=9",
    ]


def test_columns_are_aligned(log: Log) -> None:
    log.configure(format="console")
    for level in ("info", "warning", "critical"):
        logging.getLogger("shop").log(logging.getLevelNamesMapping()[level.upper()], "said")
    assert {line.index("said") for line in log.lines()} == {22}
    assert {line.index("logger=shop") for line in log.lines()} == {75}


def severity(**changes: Any) -> str:
    return events.JobSettled(
        **{"id": "i", "name": "n", "queue": "q", "attempt": 1, "duration_ms": 1, **changes}
    ).severity()


@pytest.mark.parametrize(
    ("state", "outcome", "level"),
    [
        ("completed", "completed", "info"),
        ("failed", "failed", "error"),
        ("failed", "timed_out", "error"),
        ("failed", "crashed", "error"),
        ("failed", "retry", "error"),
        ("failed", "unknown_job", "error"),
        ("failed", "cancelled", "info"),
        ("delayed", "failed", "warning"),
        ("delayed", "timed_out", "warning"),
        ("delayed", "unknown_job", "warning"),
        ("waiting", "crashed", "warning"),
        ("delayed", "retry", "info"),
        ("delayed", "snoozed", "info"),
        ("waiting", "given_back", "info"),
    ],
)
def test_how_bad_an_end_is(state: str, outcome: str, level: str) -> None:
    assert severity(state=state, outcome=outcome) == level
    quiet = {"info": "debug"}.get(level, level)
    assert severity(state=state, outcome=outcome, housekeeping=True) == quiet


def test_a_dead_worker_is_worse_for_a_run_that_it_fails_for_good() -> None:
    ends = [("failed", "crashed"), ("failed", "cancelled"), ("waiting", "crashed"), ("waiting", "given_back")]
    run = events.JobRecovered(id="i", name="n", queue="q", how="SIGKILL", state="", worker="w")
    told = [msgspec.structs.replace(run, state=state, outcome=outcome).severity() for state, outcome in ends]
    assert told == ["error", "warning", "warning", "warning"]


def test_other_severities() -> None:
    said = {
        status: events.HealthChanged(status=status, reason="").severity()
        for status in ("healthy", "degraded", "unhealthy")
    }
    assert said == {"healthy": "info", "degraded": "warning", "unhealthy": "error"}
    assert events.StoreTrouble(what="w", error="e").severity() == "error"
    assert events.JobEnqueued(id="i", name="n", queue="q", created=True).severity() == "debug"


def test_every_event_can_be_logged(log: Log) -> None:
    log.configure(format="json", level="debug")
    kinds = all_events(events.Event)
    for kind in kinds:
        tell(an_event(kind))
    assert [line["event"] for line in log.documents()] == [kind.wire_name for kind in kinds]
    assert len(kinds) > 20


def all_events(root: type[events.Event]) -> list[type[events.Event]]:
    return [found for kind in root.__subclasses__() for found in (kind, *all_events(kind))]


def an_event(kind: type[events.Event]) -> events.Event:
    samples = {"str": "x", "int": 1, "bool": True, "tuple[str, ...]": ("x",), "float": 1.0}
    hints = {name: hint for base in kind.__mro__ for name, hint in inspect.get_annotations(base).items()}
    return kind(**{name: samples.get(str(hints[name]).split(" |")[0], "x") for name in kind.__struct_fields__})


def test_levels_per_logger(log: Log) -> None:
    log.configure(format="json", level="warning", levels={"workfleet.job": "debug", "shop": "error"})
    tell(SETTLED)
    tell(events.JobEnqueued(id="i", name="n", queue="q", created=True))
    tell(events.WorkerReady(worker="w", queues="q"))
    tell(events.StoreTrouble(what="w", error="e"))
    logging.getLogger("shop.mail").warning("not shown")
    structlog.get_logger("shop.mail").warning("not shown either")
    structlog.get_logger("other").warning("shown")
    assert [line["message"] for line in log.documents()] == [
        "thumbnail completed after 12 ms",
        "n enqueued on q",
        "w: e; trying again",
        "shown",
    ]


async def test_user_lines_name_the_running_job(log: Log) -> None:
    log.configure(format="json")
    plain, rich = logging.getLogger("shop"), structlog.get_logger("shop.images")
    with Bound(job_fields(JOB)):
        plain.info("one %d", 1)
        with bound_contextvars(customer="c7"):
            await rich.ainfo("two", size=640)
        await asyncio.to_thread(plain.info, "three")
        await asyncio.create_task(spoken(plain, "four"))
        with Bound(job_fields(JobRecord(id="j2", queue="q", name="inner"))):
            plain.info("five")
        plain.info("six")
    plain.info("seven")
    run = {
        "job": "thumbnail",
        "job_id": "j1",
        "queue": "media",
        "attempt": 2,
        "schedule": "scan",
        "slot": "2027-01-15T08:00:00Z",
    }
    inner = {"job": "inner", "job_id": "j2", "queue": "q", "attempt": 1}
    assert [without(line, "time", "level", "logger") for line in log.documents()] == [
        {"message": "one 1", **run},
        {"message": "two", **run, "customer": "c7", "size": 640},
        {"message": "three", **run},
        {"message": "four", **run},
        {"message": "five", **inner},
        {"message": "six", **run},
        {"message": "seven"},
    ]


async def spoken(logger: logging.Logger, line: str) -> None:
    logger.info(line)


def without(line: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


async def test_runs_side_by_side_do_not_mix(log: Log) -> None:
    log.configure(format="json")
    barrier = asyncio.Barrier(3)

    async def run(name: str) -> None:
        with Bound(job_fields(JobRecord(id=name, queue="q", name=name))):
            await barrier.wait()
            logging.getLogger("shop").info(name)

    await asyncio.gather(run("a"), run("b"), run("c"))
    assert {(line["message"], line["job"]) for line in log.documents()} == {("a", "a"), ("b", "b"), ("c", "c")}


def test_the_context_travels_to_a_child_and_to_a_structlog_of_the_users_own() -> None:
    assert current_job() == {}
    with Bound(job_fields(JOB)):
        carried = json.loads(json.dumps(current_job()))
    with Bound(carried):
        assert current_job() == carried
        assert merge_contextvars(None, "info", {"event": "x"}) == {"event": "x", "job": carried}
    assert merge_contextvars(None, "info", {}) == {}
    assert STRUCTLOG_KEY_PREFIX == "structlog_"


def test_an_event_says_more_than_the_context(log: Log) -> None:
    log.configure(format="json")
    with Bound(job_fields(JOB)):
        tell(msgspec.structs.replace(SETTLED, id="other", attempt=9))
    (line,) = log.documents()
    assert (line["job_id"], line["attempt"], line["schedule"]) == ("other", 9, "scan")


@pytest.mark.parametrize("form", ["console", "json"])
def test_secrets_never_come_out(log: Log, form: str) -> None:
    log.configure(format=form)
    secret = "hunter2"
    plain, rich = logging.getLogger("shop"), structlog.get_logger("shop")
    plain.info("to redis://:%s@host", secret, extra={"api_key": secret, "nested": {"password": secret}})
    rich.info("login", password=secret, url=f"postgres://u:{secret}@h/db")
    tell(events.StoreTrouble(what="claim", error=f"redis://:{secret}@host refused"))
    with bound_contextvars(token=secret):
        plain.info("bound")
    try:
        raise ValueError(f"cannot open redis://x:{secret}@host")
    except ValueError:
        plain.exception("failed")
        rich.exception("failed")
    assert len([line for line in log.lines() if "***" in line]) == 8 if form == "console" else 6
    assert secret not in log.stream.getvalue()


def test_redaction_is_an_option(log: Log) -> None:
    log.configure(format="json", redact_keys=("iban",))
    logging.getLogger("shop").info("x", extra={"iban": "DE1"})
    log.configure(format="json", redact=False)
    logging.getLogger("shop").info("x", extra={"password": "p"})
    assert [(line.get("iban"), line.get("password")) for line in log.documents()] == [("***", None), (None, "p")]


def test_exceptions(log: Log) -> None:
    log.configure(format="json")
    try:
        raise KeyError("gone")
    except KeyError:
        structlog.get_logger("shop").exception("one")
        logging.getLogger("shop").log(logging.ERROR, "two", exc_info=True)
    for line in log.documents():
        assert line["level"] == "error"
        assert line["exception"].startswith("Traceback (most recent call last):")
        assert line["exception"].endswith("KeyError: 'gone'")


def test_one_document_a_line_whatever_is_in_it(log: Log) -> None:
    log.configure(format="json")
    hostile = 'a\nb\x00\x1b[31m\u2028\udc80"é'
    structlog.get_logger("shop").info(hostile, field=hostile, level=3, message="m", nan=float("nan"), obj=object)
    (line,) = log.documents()
    assert len(log.lines()) == 1
    assert log.stream.getvalue().isascii()
    assert (line["message"], line["field"], line["nan"], line["level"]) == (hostile, hostile, "nan", "info")
    assert (line["level_"], line["message_"], line["obj"]) == (3, "m", "<class 'object'>")


def test_nothing_paints_on_the_terminal(log: Log) -> None:
    log.configure(format="console")
    logging.getLogger("shop").info("a\x1b[31mb\rc", extra={"field": "x\x9b2J", "k\x1bey": 1})
    text = log.stream.getvalue()
    assert "a\\x1b[31mb\\rc" in text
    assert not {"\x1b", "\x9b", "\r"} & set(text)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "environment", "options", "console", "coloured"),
    [
        (True, {}, {}, True, True),
        (True, {"NO_COLOR": "1"}, {}, True, False),
        (True, {"NO_COLOR": ""}, {}, True, True),
        (True, {"TERM": "dumb"}, {}, True, False),
        (True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, {}, True, False),
        (True, {"FORCE_COLOR": "1", "TERM": "dumb"}, {}, True, True),
        (False, {"FORCE_COLOR": "1"}, {"format": "console"}, True, True),
        (False, {"FORCE_COLOR": "1"}, {}, False, False),
        (True, {}, {"format": "json"}, False, False),
        (False, {}, {}, False, False),
        (False, {}, {"format": "console"}, True, False),
    ],
)
def test_format_and_colour(
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    environment: dict[str, str],
    options: dict[str, Any],
    console: bool,
    coloured: bool,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()
    setup = configure_logging(LogOptions(**options), stream=stream, user_code=False)
    logging.getLogger("shop").warning("said")
    setup.close()
    assert stream.getvalue().startswith("{") is not console
    assert ("\x1b[33mwarning" in stream.getvalue()) is coloured


def test_senseless_options_are_refused() -> None:
    with pytest.raises(UsageError, match="'loud' is no log level: use one of debug, info, warning, error, critical"):
        configure_logging(LogOptions(levels={"shop": "loud"}))
    with pytest.raises(UsageError, match="'xml' is no log format: use auto, console or json"):
        configure_logging(LogOptions(format="xml"))  # type: ignore[arg-type]


def test_the_setup_is_undone() -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logging.getLogger("shop").level)
    setup = configure_logging(LogOptions(levels={"shop": "error"}), stream=io.StringIO(), user_code=False)
    assert (len(root.handlers), root.level) == (1, logging.INFO)
    setup.close()
    assert (root.handlers, root.level, logging.getLogger("shop").level) == before


def test_importing_configures_nothing_and_the_supervisor_needs_no_structlog() -> None:
    program = """
import logging, sys
root = logging.getLogger(); before = (root.handlers[:], root.level)
from workfleet.observe.logs.options import LogOptions
from workfleet.observe.logs.setup import configure_logging
from workfleet.observe.logs.subscriber import LogSubscriber
from workfleet.observe.logs.context import bind_job
assert (root.handlers[:], root.level) == before
configure_logging(LogOptions(format="json"), user_code=False)
from workfleet.events import WorkerReady
LogSubscriber().route(WorkerReady)(WorkerReady(worker="w", queues="q"))
assert "structlog" not in sys.modules
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    assert json.loads(ran.stderr)["message"] == "ready, listening to q"
