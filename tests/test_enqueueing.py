"""From a `NewJob` to a record: every option checked at the door, with a message that says what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from msgspec import UNSET, Struct

from workfleet.enqueueing import Enqueueing, PayloadLimits
from workfleet.errors import PayloadRejected, UsageError
from workfleet.jobref import JobRef
from workfleet.model.checks import instant_ms
from workfleet.model.jobs import JobRecord, Keep, KeepRule, RunOverrides, UniqueRule
from workfleet.model.jobtypes import JobType, NewJob
from workfleet.model.policy import Backoff, fixed
from workfleet.model.retention import Retention
from workfleet.model.unique import Unique
from workfleet.payloads.hints import stored_result
from workfleet.queues.declare import handler

NOW = 1_800_000_000_000


class Photo(Struct):
    sha: str
    size: int = 0


RESIZE = JobType("resize", Photo, queue="images")
PLAIN = JobType("plain", object)


def enqueueing() -> Enqueueing:
    return Enqueueing("worker-default", lambda: NOW)


def record(kind: JobType[Any, Any] = RESIZE, payload: Any = None, **options: Any) -> JobRecord:
    return enqueueing().record(kind(Photo("a") if payload is None else payload, **options))


def test_what_is_left_out_is_the_default() -> None:
    made = record()
    assert (made.queue, made.name, made.payload) == ("images", "resize", b'{"sha":"a","size":0}')
    assert made.run == RunOverrides()
    assert (made.run.attempts, made.run.backoff, made.run.timeout_ms) == (UNSET, UNSET, UNSET)
    assert (made.priority, made.lifo, made.delay_ms, made.due_ms, made.unique_key) == (0, False, 0, 0, None)
    assert made.id != record().id
    assert record(PLAIN, 1).queue == "worker-default"


def test_none_switches_off() -> None:
    made = record(timeout=None, backoff=None)
    assert (made.run.timeout_ms, made.run.backoff) == (None, Backoff("fixed", 0, 0, "none"))
    assert record(backoff="3s").run.backoff == fixed("3s")


def test_an_instant_is_exact_to_the_millisecond() -> None:
    start = datetime(2027, 1, 1, tzinfo=UTC)
    for ms in range(0, 100_000, 37):
        at = start + timedelta(milliseconds=ms)
        assert instant_ms(at) == 1_798_761_600_000 + ms
        assert instant_ms(at.astimezone(timezone(timedelta(hours=5, minutes=30)))) == 1_798_761_600_000 + ms


def test_a_key_comes_from_the_payload() -> None:
    assert record(unique="{data.sha}").unique_key == "images/resize/a"
    assert record(unique="data.sha").unique_key == "images/resize/a"
    assert record(unique="{name}:{data.sha}").unique_key == "images/resize/resize:a"
    assert record(PLAIN, {"tenant": 7}, unique="t{data.tenant}").unique_key == "worker-default/plain/t7"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"attempts": 0}, "attempts=0: it is the number of tries, 1 to 1,000,000"),
        ({"attempts": True}, "attempts=True"),
        ({"attempts": 10**30}, "attempts=1000000"),
        ({"timeout": "0s"}, "no run ends in no time"),
        ({"timeout": 5}, "5 is not a duration"),
        ({"backoff": "soon"}, "'soon' is not a duration"),
        ({"delay": "-1s"}, "is negative"),
        ({"delay": float("nan")}, "nan is not a duration"),
        ({"delay": "999999999d"}, "is too long"),
        ({"delay": "1s", "at": datetime(2027, 1, 1, tzinfo=UTC)}, "give delay= or at=, not both"),
        ({"at": datetime(2027, 1, 1)}, "give it a time zone"),  # noqa: DTZ001
        ({"priority": -1}, "priority=-1: 0 to 2097151"),
        ({"priority": 2**21}, "priority=2097152"),
        ({"priority": 1.5}, "priority=1.5"),
        ({"lifo": "yes"}, "lifo='yes': it is True or False"),
        ({"id": ""}, "1 to 255 bytes of printable text"),
        ({"id": "a:b"}, "without a colon"),
        ({"id": "wf"}, "not 'wf'"),
        ({"id": "x" * 256}, "1 to 255 bytes"),
        ({"id": "nul\0"}, "printable"),
        ({"queue": "a:b"}, "queue 'a:b': a name has no ':'"),
        ({"queue": " a"}, "neither empty nor padded"),
        ({"queue": "x" * 201}, "at most 200 characters"),
        ({"queue": 7}, "queue 7: a name is text"),
        ({"queue": ["q"]}, "queue ['q']: a name is text"),
        ({"tags": "photo"}, "tags='photo': it is a list of texts"),
        ({"tags": [1]}, "tags: 1 is not text"),
        ({"tags": ["lone \ud800"]}, "is not printable text"),
        ({"metadata": {"k": 1}}, "metadata: 1 is not text"),
        ({"metadata": {1: "v"}}, "metadata: 1 is not text"),
        ({"unique": "always"}, "names no parameter, so it would be the same for every call"),
        ({"unique": "{data.nothing}"}, "nothing"),
        ({"unique": "{tenant}"}, "names no parameter; there are data, name"),
        ({"unique": "{data}"}, "is a Photo: name a field of it"),
        ({"unique": "x" * 990 + "{data.sha}" * 11}, "characters, at most 1,000"),
        ({"unique": 7}, "unique=7: it is a key such as '{data.sha}', or Unique("),
        ({"unique": Unique("{data.sha}", on_conflict="debounce")}, "starts the delay anew: give delay=, too"),
        ({"unique": Unique("always")}, "names no parameter, so it would be the same for every call"),
        ({"group": ""}, "group '': a name is printable text that is neither empty nor padded"),
        ({"group": "x" * 201}, "at most 200 characters"),
        ({"group": "{data.size.nothing}"}, "nothing"),
        ({"group": "{tenant}"}, "names no parameter; there are data, name"),
        ({"group": 7}, "group=7: it is a text such as '{data.tenant}'"),
        ({"expires": "0s"}, "expires='0s': it would never be started"),
        ({"expires": 5}, "5 is not a duration"),
        ({"expires": datetime(2027, 1, 1)}, "expires=2027-01-01T00:00:00: give it a time zone"),  # noqa: DTZ001
        ({"expires": "1m", "delay": "60s"}, "expires='1m' is not after delay='60s': it would never be started"),
        ({"expires": datetime(2027, 1, 1, tzinfo=UTC), "at": datetime(2027, 1, 1, tzinfo=UTC)}, "is not after at="),
        ({"expires": "1h", "at": datetime(9999, 1, 1, tzinfo=UTC)}, "expires= is not after delay= or at="),
        ({"expires": datetime(1971, 1, 1, tzinfo=UTC), "delay": "1s"}, "expires= is not after delay= or at="),
        ({"retention": "1h"}, "retention='1h': it is Retention(completed='1h'"),
        ({"retry": {ValueError: 5}}, "5 is not a duration"),
        ({"retry": {"a b": "1s"}}, "retry: 'a b' is neither an exception's class nor its name"),
        ({"backoff": len}, "is a function, which no job can carry"),
        ({"at": "tomorrow"}, "at='tomorrow': it is a datetime with a time zone"),
        ({"tags": 7}, "tags=7: it is a list of texts"),
        ({"metadata": [1]}, "metadata=[1]: it is texts by name"),
        ({"metadata": {"k": "x" * 70_000}}, "tags and metadata have 70,013 bytes of JSON, together at most 65,536"),
        ({"tags": [""] * 30_000}, "tags and metadata have 90,006 bytes of JSON, together at most 65,536"),
        ({"prioriti": 1}, "unknown option 'prioriti'; there are at, attempts, backoff, delay, expires, group, id"),
    ],
)  # fmt: skip
def test_an_option_that_is_wrong_is_told_with_the_jobs_name(options: Any, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        record(**options)
    assert str(refused.value).startswith("job 'resize': ")
    assert said in str(refused.value)


def test_how_long_a_key_is_held_is_a_rule() -> None:
    assert record(unique="{data.sha}").unique == UniqueRule()
    made = record(unique=Unique("{data.sha}", until="started", exclusive=True))
    assert (made.unique_key, made.unique) == ("images/resize/a", UniqueRule("started", exclusive=True))
    debounced = record(unique=Unique("data.sha", on_conflict="debounce"), delay="2s")
    assert (debounced.unique_key, debounced.unique.on_conflict) == ("images/resize/a", "debounce")
    assert debounced.delay_ms == 2_000


def test_a_group_comes_from_the_payload_or_is_a_constant() -> None:
    assert record().group == ""
    assert record(group="{data.sha}").group == "a"
    assert record(group="data.sha").group == "a"
    assert record(group="tenant {data.sha} of {name}").group == "tenant a of resize"
    assert record(group="gold").group == "gold"
    assert record(PLAIN, {"tenant": 7}, group="{data.tenant}").group == "7"


def test_expiry_is_a_duration_or_an_instant() -> None:
    made = record(expires="10m")
    assert (made.expires_after_ms, made.expires_ms) == (600_000, None)
    made = record(expires=datetime(2027, 1, 1, tzinfo=UTC))
    assert (made.expires_after_ms, made.expires_ms) == (None, 1_798_761_600_000)
    assert record(expires="10m", delay="9m").expires_after_ms == 600_000


def test_retention_and_retry_rules() -> None:
    assert record().keep == Keep()
    made = record(retention=Retention(completed="1h", failed_count=5))
    assert made.keep == Keep(KeepRule(3_600_000, None), KeepRule(None, 5))
    assert record(retry={ValueError: None}).run.rules == {"ValueError": None}
    assert record(retry=None).run.rules == {}
    assert record().run.rules is UNSET


def test_the_trace_is_that_of_whoever_makes_the_job() -> None:
    making = Enqueueing("q", lambda: NOW, trace=lambda: "00-1-2-01")
    assert making.record(RESIZE(Photo("a"))).trace == "00-1-2-01"
    run = JobRecord(id="run", queue="q", name="n", trace="00-3-4-01")
    assert making.follow_up(RESIZE(Photo("a")), run, 0).trace == "00-1-2-01"
    assert enqueueing().follow_up(RESIZE(Photo("a")), run, 0).trace == "00-3-4-01"


def test_a_payload_s_limit_is_the_operator_s_the_type_s_the_queue_s_or_the_setting_s() -> None:
    limits = PayloadLimits(10, {"said": 20, "both": 20}, {"declared": 30, "both": 30})
    own, other = JobType("n", str, queue="q", max_payload="40B"), JobType("n", str, max_payload="40B")
    assert [limits.of(queue) for queue in ("said", "declared", "both", "else")] == [20, 30, 20, 10]
    assert (limits.of("q", own), limits.of("else", own), limits.of("else", other)) == (40, 10, 40)
    assert (limits.of("said", other), limits.of("declared", other)) == (20, 40)
    making = Enqueueing("q", lambda: NOW, limits=limits)
    assert making.record(own("x" * 38)).payload == b'"' + b"x" * 38 + b'"'
    with pytest.raises(PayloadRejected, match=r"41 bytes of JSON, the limit is 40: .* raise max_payload of its queue"):
        making.record(own("x" * 39))
    with pytest.raises(PayloadRejected, match=r"12 bytes of JSON, the limit is 10"):
        making.record(own("x" * 10, queue="else"))


def test_a_megabyte_is_the_limit_unless_somebody_says_otherwise() -> None:
    small, large = JobType("n", str), JobType("n", str, max_payload="64MiB")
    assert len(enqueueing().record(small("x" * (2**20 - 2))).payload) == 2**20
    with pytest.raises(PayloadRejected, match="the limit is 1,048,576"):
        enqueueing().record(small("x" * (2**20 - 1)))
    assert len(enqueueing().record(large("x" * (2**26 - 2))).payload) == 2**26
    with pytest.raises(PayloadRejected, match=r"the limit is 67,108,864: keep it elsewhere and pass where$"):
        enqueueing().record(large("x" * (2**26 - 1)))
    with pytest.raises(ValueError, match="max_payload='65MiB': it is 1B to 64MiB"):
        JobType("n", str, max_payload="65MiB")
    assert (large.on("q").payload_limit, large.on("q") == small.on("q")) == (2**26, True)


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(UsageError, match="is empty"):
        record(payload=Photo(""), unique="{data.sha}")
    with pytest.raises(UsageError, match=r"\{data.sha\} in the key '\{data.sha\}' is empty"):
        record(payload=Photo(""), group="{data.sha}")


def test_a_payload_that_is_wrong_is_refused_with_its_place() -> None:
    with pytest.raises(PayloadRejected, match=r"payload of resize: \$\.size"):
        record(payload=Photo("a", 2**60))
    with pytest.raises(PayloadRejected, match="payload of plain"):
        record(PLAIN, {1, 2})


@pytest.mark.parametrize("wrong", [RESIZE, Photo("a"), "resize", None])
def test_only_jobs_are_enqueued(wrong: Any) -> None:
    with pytest.raises(UsageError, match="enqueue takes a job such as"):
        enqueueing().record(wrong)


def test_a_handler_instead_of_its_job_gets_the_hint() -> None:
    @handler()
    async def resize(job: Job[Photo]) -> None: ...

    with pytest.raises(UsageError, match=r"call its job type with a payload \(`.job\(payload\)`\)"):
        enqueueing().record(resize)  # type: ignore[arg-type]


def test_returned_jobs_have_ids_that_derive_from_the_run() -> None:
    run = JobRecord(id="run", queue="q", name="n")
    first, again = ([enqueueing().follow_up(RESIZE(Photo("a")), run, n).id for n in range(3)] for _ in range(2))
    assert first == again
    assert len(set(first)) == 3
    assert enqueueing().follow_up(RESIZE(Photo("a"), id="own"), run, 0).id == "own"


def test_job_types_made_as_one_goes_do_not_take_the_memory() -> None:
    making = enqueueing()
    for number in range(2_500):
        making.record(JobType(f"n{number}", int)(number))
    assert len(making._codecs) <= 1_000


@pytest.mark.parametrize("name", ["", " padded", "two\nlines", "lone \ud800", "x" * 201])
def test_what_no_job_can_be_called(name: str) -> None:
    with pytest.raises(ValueError, match=r"^job "):
        JobType(name, int)


def test_the_stored_type_of_returned_jobs() -> None:
    assert stored_result(list[NewJob[int]]) is Any
    assert stored_result(NewJob[int] | None) is Any
    assert stored_result(list[int]) == list[int]
    assert repr(JobRef("x", created=True, jobs=None, clock=None)) == "JobRef('x', created=True)"  # type: ignore[arg-type]


from workfleet.model.jobtypes import Job  # noqa: E402 - a hint that is read when it is needed, not when it is written


def test_tags_and_metadata_have_room_together() -> None:
    longest = "x" * (64 * 1024 - len('[["a"],{"k":""}]'))
    assert record(tags=["a"], metadata={"k": longest}).metadata == {"k": longest}
    with pytest.raises(UsageError, match="65,537 bytes of JSON"):
        record(tags=["ab"], metadata={"k": longest})
