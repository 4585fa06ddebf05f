"""When a schedule is due, as a stored value: cron, interval, once, manual."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import msgspec
import pytest

from workfleet.errors import WorkfleetError
from workfleet.model.cron import CronError
from workfleet.model.expressions import CronExpression
from workfleet.model.timing import At, CronTiming, Every, Manual, Timing, TimingError, timing


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


class Stored(msgspec.Struct):
    timing: Timing


ALL: list[tuple[Timing, str, str]] = [
    (timing(cron="0 3 * * *"), "cron", '{"kind":"cron","expression":"0 3 * * *"}'),
    (
        timing(cron="H 3 * * *", timezone="Europe/Berlin", dst_gap="skip", dst_overlap="both", name="nightly"),
        "cron",
        '{"kind":"cron","expression":"H 3 * * *","timezone":"Europe/Berlin","dst_gap":"skip","dst_overlap":"both",'
        '"hash_name":"nightly"}',
    ),
    (timing(every="15m", offset="2m"), "interval", '{"kind":"interval","every_ms":900000,"offset_ms":120000}'),
    (Every(1000, anchor_ms=5), "interval", '{"kind":"interval","every_ms":1000,"anchor_ms":5}'),
    (timing(at="2026-01-01T00:00:00.5Z"), "once", '{"kind":"once","at_ms":1767225600500}'),
    (timing(), "manual", '{"kind":"manual"}'),
]


@pytest.mark.parametrize(("value", "kind", "stored"), ALL)
def test_stored_as_json_and_read_back(value: Timing, kind: str, stored: str) -> None:
    assert value.kind == kind
    assert msgspec.json.encode(value).decode() == stored
    back = msgspec.json.decode(f'{{"timing":{stored}}}', type=Stored).timing
    assert back == value
    assert back.next_after(0) == value.next_after(0)
    assert hash(back) == hash(value)
    with pytest.raises(AttributeError):
        value.nothing = 1  # type: ignore[union-attr]


def test_a_cron_timing_is_compiled_once_and_keeps_its_rules() -> None:
    value = timing(cron="30 2 * * *", timezone="Europe/Berlin")
    assert isinstance(value, CronTiming)
    assert value.cron is value.cron
    assert value.next_after(ms("2026-03-28T12:00Z")) == ms("2026-03-29T01:00Z")
    assert value.previous_before(ms("2026-03-29T01:00Z")) == ms("2026-03-28T01:30Z")
    skipping = timing(cron="30 2 * * *", timezone="Europe/Berlin", dst_gap="skip")
    assert skipping.next_after(ms("2026-03-28T12:00Z")) == ms("2026-03-30T00:30Z")
    both = timing(cron="30 2 * * *", timezone="Europe/Berlin", dst_overlap="both")
    assert both.next_after(ms("2026-10-25T00:30Z")) == ms("2026-10-25T01:30Z")


def test_the_name_is_kept_only_where_it_matters() -> None:
    """A schedule's fingerprint must not change with its name when nothing spreads by it."""
    assert timing(cron="0 3 * * *", name="a") == timing(cron="0 3 * * *", name="b")
    assert timing(cron="H 3 * * *", name="a") != timing(cron="H 3 * * *", name="b")


def test_a_ready_made_expression_is_stored_as_text() -> None:
    value = timing(cron=CronExpression.EVERY_5_MINUTES)
    assert isinstance(value, CronTiming)
    assert type(value.expression) is str
    assert value == timing(cron="*/5 * * * *")


def test_a_stored_expression_that_cannot_be_used_can_still_be_read() -> None:
    stored = msgspec.json.decode(
        b'{"timing":{"kind":"cron","expression":"0 3 * * *","timezone":"Mars/X"}}', type=Stored
    )
    assert isinstance(stored.timing, CronTiming)
    assert stored.timing.timezone == "Mars/X"
    with pytest.raises(CronError):
        stored.timing.next_after(0)


def test_an_interval_never_drifts() -> None:
    value = Every(every_ms=7_001, offset_ms=300, anchor_ms=50)
    at = value.next_after(0)
    for n in range(10_000):
        assert at == 350 + 7_001 * n
        assert at is not None
        # Asked late, up to just before the next one: the grid stays.
        following = value.next_after(at + (n * 37) % 7_001)
        assert following is not None
        assert value.previous_before(following) == at
        at = following


def test_an_interval_is_anchored_in_utc_by_default() -> None:
    quarter = timing(every="15m")
    assert [quarter.next_after(ms(f"2026-01-01T10:{minute}Z")) for minute in ("00", "14", "59")] == [
        ms("2026-01-01T10:15Z"),
        ms("2026-01-01T10:15Z"),
        ms("2026-01-01T11:00Z"),
    ]
    shifted = timing(every=timedelta(days=1), offset="3h")
    assert shifted.next_after(ms("2026-01-01T03:00Z")) == ms("2026-01-02T03:00Z")
    assert shifted.next_after(ms("2026-01-01T02:59:59.999+00:00")) == ms("2026-01-01T03:00Z")


def test_an_interval_works_before_its_anchor_and_far_from_it() -> None:
    assert Every(1_000, anchor_ms=10_500).next_after(3_000) == 3_500
    assert Every(1_000).next_after(-1) == 0
    assert Every(1_000).next_after(-2_500) == -2_000
    assert Every(86_400_000 * 365_000).next_after(10**13) == 86_400_000 * 365_000


def test_once_and_manual() -> None:
    once = timing(at=datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))))
    due = ms("2026-01-01T10:00Z")
    assert once == At(due)
    assert [once.next_after(at) for at in (due - 1, due, due + 1)] == [due, None, None]
    assert [once.previous_before(at) for at in (due - 1, due, due + 1)] == [None, None, due]
    assert (Manual().next_after(0), Manual().previous_before(0)) == (None, None)


@pytest.mark.parametrize(
    ("at", "zone", "expected"),
    [
        ("2026-07-01T12:00", "Europe/Berlin", "2026-07-01T10:00Z"),
        ("2026-07-01 12:00:00.250", "UTC", "2026-07-01T12:00:00.250Z"),
        ("2026-07-01", "Europe/Berlin", "2026-06-30T22:00Z"),
        ("2026-07-01T12:00+05:30", "Europe/Berlin", "2026-07-01T06:30Z"),
        # Does not exist: the first valid instant. Comes twice: the first.
        ("2026-03-29T02:30:15.5", "Europe/Berlin", "2026-03-29T01:00Z"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30Z"),
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00Z"),
        ("9998-12-31T23:59:59.999", "America/New_York", "9999-01-01T04:59:59.999Z"),
    ],
)
def test_a_date_without_an_offset_is_local(at: str, zone: str, expected: str) -> None:
    # The float of a far timestamp is not exact: compare what was stored.
    exact = (datetime.fromisoformat(expected) - datetime.fromisoformat("1970-01-01T00:00Z")) // timedelta(
        milliseconds=1
    )
    assert timing(at=at, timezone=zone) == At(exact)


@pytest.mark.parametrize(
    ("options", "field", "reason"),
    [
        ({"every": "0s"}, "every", "at least 1s"),
        ({"every": "999ms"}, "every", "at least 1s"),
        ({"every": "-5s"}, "every", "negative"),
        ({"every": "15"}, "every", "unit"),
        ({"every": "soon"}, "every", "not a duration"),
        ({"every": timedelta(seconds=-1)}, "every", "negative"),
        ({"every": "1m", "offset": "1m"}, "offset", "shorter than the interval"),
        ({"every": "1m", "offset": "x"}, "offset", "not a duration"),
        ({"cron": "* * * * *", "every": "1m"}, "every", "only one of cron, every"),
        ({"every": "1m", "at": "2026-01-01"}, "at", "only one of every, at"),
        ({"offset": "1m"}, "offset", "without every="),
        ({"every": "1m", "dst_gap": "skip"}, "dst_gap", "without cron="),
        ({"at": "2026-01-01", "dst_overlap": "both"}, "dst_overlap", "without cron="),
        ({"at": "tomorrow"}, "at", "write a date"),
        ({"at": "10000-01-01T00:00Z"}, "at", "write a date"),
        ({"at": "9999-01-01T00:00Z"}, "at", "between 1970 and 9998"),
        ({"at": "1969-12-31T23:59Z"}, "at", "between 1970 and 9998"),
        ({"at": "2026-01-01", "timezone": "Mars/X"}, "timezone", "no time zone 'Mars/X'"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], field: str, reason: str) -> None:
    with pytest.raises(TimingError) as caught:
        timing(**options)  # type: ignore[arg-type]
    error = caught.value
    assert (error.field, error.value) == (field, options[field])
    assert reason in str(error)
    assert str(error).startswith(f"{field}=")
    assert isinstance(error, (ValueError, WorkfleetError))


def test_default_policies_may_be_given_without_an_expression() -> None:
    """They come from a module's settings, whatever the schedule is."""
    assert timing(every="1m", timezone="Europe/Berlin", dst_gap="shift", dst_overlap="first") == Every(60_000)


def test_a_wrong_expression_is_refused_at_once() -> None:
    with pytest.raises(CronError):
        timing(cron="0 25 * * *")
    with pytest.raises(CronError, match="Mars"):
        timing(cron="0 3 * * *", timezone="Mars/X")
    with pytest.raises(CronError, match="none was given"):
        timing(cron="H 3 * * *")
    with pytest.raises(CronError):
        timing(cron=" ")


@pytest.mark.parametrize(
    "stored", ['{"kind":"interval","every_ms":0}', '{"kind":"interval","every_ms":1000,"offset_ms":1000}']
)
def test_a_stored_interval_that_could_never_end_is_refused(stored: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(f'{{"timing":{stored}}}', type=Stored)
