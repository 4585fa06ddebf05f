"""What is accepted, what is refused, and that a refusal points at the place. OCPS's own vectors are here."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise

import pytest

from tests.schedules.cron_oracle import Oracle
from workfleet.errors import WorkfleetError
from workfleet.model.cron import Cron, CronError, uses_hash, zone


def runs_at(expression: str, local: str) -> bool:
    at = int(datetime.fromisoformat(f"{local}+00:00").timestamp() * 1000)
    return Cron.parse(expression).next(at - 1) == at


# (pattern, must match, must not match): github.com/open-source-cron/ocps, data/conformance-tests.json
OCPS_MATCHES = [
    ("15 10 * * *", ["2025-03-10 10:15"], ["2025-03-10 10:14", "2025-03-10 10:15:30"]),
    ("30 8 * jan Mon", ["2025-01-06 08:30"], ["2025-02-03 08:30"]),
    (
        "5-59/15 9 * * *",
        ["2025-03-10 09:05", "2025-03-10 09:20", "2025-03-10 09:35", "2025-03-10 09:50"],
        ["2025-03-10 09:15"],
    ),
    ("0 12 1 * MON", ["2025-10-01 12:00", "2025-10-06 12:00", "2025-09-08 12:00"], ["2025-10-07 12:00"]),
    ("0 12 * * MON", ["2025-10-06 12:00"], ["2025-10-07 12:00"]),
    ("0 12 1-31 * MON", ["2025-10-06 12:00", "2025-10-07 12:00"], ["2025-10-08 11:00"]),
    ("*,1-30 12 *,1 * MON", ["2025-10-06 12:45"], ["2025-10-07 12:45"]),
    ("@yearly", ["2026-01-01 00:00"], ["2026-01-02 00:00"]),
    ("@annually", ["2026-01-01 00:00"], ["2026-01-02 00:00"]),
    ("@monthly", ["2026-02-01 00:00"], ["2026-02-02 00:00"]),
    ("@weekly", ["2025-10-05 00:00"], ["2025-10-06 00:00"]),
    (" @daily\t", ["2025-10-07 00:00"], ["2025-10-07 00:01"]),
    ("@midnight", ["2025-10-07 00:00"], ["2025-10-07 00:01"]),
    ("@hourly", ["2025-10-07 10:00"], ["2025-10-07 10:01"]),
    ("30 15 10 * * *", ["2025-03-10 10:15:30"], ["2025-03-10 10:15:29"]),
    ("0 15 10 * * * 2025", ["2025-03-10 10:15:00"], ["2026-03-10 10:15:00"]),
    ("0 0 0 1 1 * 1970-2199/2", ["2026-01-01 00:00:00"], ["2025-01-01 00:00:00"]),
    ("0 0 L * *", ["2025-02-28 00:00"], ["2025-02-27 00:00"]),
    ("0 0 * * FRI#L", ["2025-02-28 00:00"], ["2025-02-21 00:00"]),
    ("0 0 * * 5L", ["2025-02-28 00:00"], ["2025-02-21 00:00"]),
    ("0 0 * * TUE#3", ["2025-06-17 00:00"], ["2025-06-10 00:00"]),
    ("0 12 15W * *", ["2025-06-16 12:00"], ["2025-06-15 12:00"]),
    ("0 12 1W * *", ["2025-02-03 12:00"], ["2025-02-01 12:00"]),
    ("0 12 1 * +MON", ["2025-09-01 12:00"], ["2025-09-08 12:00", "2025-10-01 12:00"]),
    ("0 0 1 * ?", ["2025-10-01 00:00"], ["2025-10-06 00:00"]),
    ("  0\t0   1 *  * ", ["2025-10-01 00:00"], ["2025-10-02 00:00"]),
    ("\n00 03 * * *\n", ["2025-10-01 03:00"], ["2025-10-01 00:03"]),
    ("0 0 * * 7", ["2025-10-05 00:00"], ["2025-10-04 00:00"]),
    ("0 0 * * 5-7", ["2025-10-03 00:00", "2025-10-05 00:00"], ["2025-10-06 00:00"]),
]


@pytest.mark.parametrize(("pattern", "matching", "other"), OCPS_MATCHES)
def test_ocps_matches(pattern: str, matching: list[str], other: list[str]) -> None:
    assert [runs_at(pattern, local) for local in matching] == [True] * len(matching)
    assert [runs_at(pattern, local) for local in other] == [False] * len(other)


REFUSED = [
    # expression, field, number, column, text, part of the reason
    ("60 0 * * *", "minute", 1, 1, "60", "out of range"),
    ("0 25 * * *", "hour", 2, 3, "25", "out of range"),
    ("0  1,24 * * *", "hour", 2, 6, "24", "out of range"),
    ("0 0 0 * *", "day of month", 3, 5, "0", "out of range"),
    ("*,*,61 * * * *", "minute", 1, 5, "61", "out of range"),
    ("0 0 * 13 *", "month", 4, 7, "13", "out of range"),
    ("0 0 * * 8", "day of week", 5, 9, "8", "out of range"),
    ("0 0 0 1 1 * 1969", "year", 7, 13, "1969", "out of range"),
    ("0 0 0 1 1 * 2200", "year", 7, 13, "2200", "out of range"),
    ("0 0 10-5 * *", "day of month", 3, 5, "10-5", "write 10-31,1-5"),
    ("0 22-2 * * *", "hour", 2, 3, "22-2", "write 22-23,0-2"),
    ("0 0 * * fri-mon", "day of week", 5, 9, "fri-mon", "write FRI-7,1-MON"),
    ("0 0 /30 * *", "day of month", 3, 5, "/30", "write */30"),
    ("0/15 * * * *", "minute", 1, 1, "0/15", "write 0-59/15 (or */15)"),
    ("10/10 * * * *", "minute", 1, 1, "10/10", "write 10-59/10"),
    ("* * * * 1/2", "day of week", 5, 9, "1/2", "write 1-6/2"),
    ("*/0 * * * *", "minute", 1, 1, "*/0", "step '0'"),
    ("*/90 * * * *", "minute", 1, 1, "*/90", "every="),
    ("*/x * * * *", "minute", 1, 1, "*/x", "step 'X'"),
    ("1,,2 * * * *", "minute", 1, 1, "1,,2", "empty"),
    ("-5 * * * *", "minute", 1, 1, "-5", "missing"),
    ("1-2-3 * * * *", "minute", 1, 1, "1-2-3", "not a value"),
    ("0 0 * FOO *", "month", 4, 7, "FOO", "not a value"),
    ("0 MON * * *", "hour", 2, 3, "MON", "not a value"),
    ("٣ 0 * * *", "minute", 1, 1, "٣", "not a value"),
    ("0 0 1-15W * *", "day of month", 3, 5, "1-15W", "W and L"),
    ("0 0 1W,15 * *", "day of month", 3, 5, "1W", "single day"),
    ("0 0 40W * *", "day of month", 3, 5, "40W", "out of range"),
    ("0 0 L/2 * *", "day of month", 3, 5, "L/2", "W and L"),
    ("0 0 L-31 * *", "day of month", 3, 5, "L-31", "1 to 30"),
    ("0 0 * L *", "month", 4, 7, "L", "not a value"),
    ("0 0 * * L", "day of week", 5, 9, "L", "FRI#L"),
    ("0 0 * * MON#6", "day of week", 5, 9, "MON#6", "1 to 5 or L"),
    ("0 0 * * MON#", "day of week", 5, 9, "MON#", "1 to 5 or L"),
    ("0 0 * * 1-5#2", "day of week", 5, 9, "1-5#2", "not a value"),
    ("0 12 +1 * MON", "day of month", 3, 6, "+1", "not a value"),
    ("? 12 * * *", "minute", 1, 1, "?", "not a value"),
    ("0 12 * ? *", "month", 4, 8, "?", "not a value"),
    ("H * * * *", "minute", 1, 1, "H", "none was given"),
    ("0 0 30 2 *", "day of month", 3, 5, "30", "never"),
    ("* * 31 2 *", "day of month", 3, 5, "31", "never"),
    ("0 0 31 4,6,9,11 *", "day of month", 3, 5, "31", "never"),
    ("0 0 30 2 +MON", "day of month", 3, 5, "30", "never"),
    ("0 0 31W 2 *", "day of month", 3, 5, "31W", "never"),
    ("0 0 0 29 2 * 2025-2027", "day of month", 4, 7, "29", "never"),
    ("0 0 0 29 2 +MON 2024", "day of month", 4, 7, "29", "never"),
    ("* * * *", "expression", None, None, None, "4 fields"),
    ("* * * * * * * *", "expression", None, None, None, "8 fields"),
    ("", "expression", None, None, None, "0 fields"),
    ("0\u00a00 * * *", "expression", None, None, None, "4 fields"),
    ("1," * 2000 + "2 * * * *", "expression", None, None, None, "longer"),
    ("@reboot", "expression", None, None, None, "run_on_start"),
    ("@Daily", "nickname", None, 1, "@Daily", "no such nickname"),
    (" @daily 0 0 * * *", "nickname", None, 2, "@daily 0 0 * * *", "no such nickname"),
]


@pytest.mark.parametrize(("expression", "field", "number", "column", "text", "reason"), REFUSED)
def test_a_refusal_points_at_the_place(
    expression: str, field: str, number: int | None, column: int | None, text: str | None, reason: str
) -> None:
    if column is not None and text is not None and not expression[column - 1 :].startswith(text):
        column = expression.index(text) + 1
    with pytest.raises(CronError) as caught:
        Cron.parse(expression)
    error = caught.value
    assert (error.field, error.number, error.column, error.text) == (field, number, column, text)
    assert reason in error.reason
    assert reason in str(error)
    assert isinstance(error, (ValueError, WorkfleetError))
    if number is not None:
        assert f"{field} (field {number}, column {column}) {text!r}" in str(error)
        assert error.allowed == "" or error.allowed in str(error)


def test_the_message_as_a_whole() -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse("0 3 * 13 *")
    assert str(caught.value) == (
        "cron expression '0 3 * 13 *': month (field 4, column 7) '13': 13 is out of range (allowed: 1-12 or JAN-DEC)"
    )


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        ("0 3 * 13 *", ["  0 3 * 13 *", "        ^^"]),
        ("0\t0 * * 1,FRY", ["  0 0 * * 1,FRY", "            ^^^"]),
        ("1,,2 * * * *", ["  1,,2 * * * *", "  ^^^^"]),
        ("@Daily", ["  @Daily", "  ^^^^^^"]),
        (
            f"{'5,' * 40}60 0 1 1,2,3,4,5,6,7,8,9,10,11,12 *",
            ["  …5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,60 0 1 1,2,3,4,5,6,7,8,9,10,11…", f"{' ' * 43}^^"],
        ),
    ],
)
def test_the_wrong_piece_is_marked(expression: str, lines: list[str]) -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse(expression)
    assert caught.value.pointed().splitlines() == lines


def test_what_has_no_single_place_is_not_marked() -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse("* * * *")
    assert caught.value.pointed() == ""


def test_possible_dates_that_look_impossible() -> None:
    for expression in (
        "0 0 30 2 MON",
        "0 0 29 2 *",
        "0 0 31 2,3 *",
        "0 0 * 2 MON#5",
        "0 0 0 29 2 * 2027-2028",
        "0 0 L-28 2 *",
    ):
        assert Cron.parse(expression).next(0) is not None, expression


@pytest.mark.parametrize(
    ("expression", "fixed"),
    [
        ("0 3 * * *", True),
        ("0-59 0-23 * * *", True),
        ("0,30 3 * * *", True),
        ("30 0 3 * * *", True),
        ("H H * * *", True),
        ("H(0-29) 3 * * *", True),
        ("* 3 * * *", False),
        ("0 * * * *", False),
        ("0 */2 * * *", False),
        ("*/10 0 3 * * *", False),
        ("H/15 3 * * *", False),
        ("H(0-29)/10 3 * * *", False),
        ("h/15 3 * * *", False),
        ("H H/2 * * *", False),
        ("0 3 * * * ", True),
    ],
)
def test_what_is_a_fixed_time(expression: str, fixed: bool) -> None:
    assert Cron.parse(expression, hash_name="x").pattern.fixed is fixed


def test_hash_is_stable_spread_and_within_bounds() -> None:
    # Stored schedules depend on these choices: they must never change.
    choices = {name: Cron.parse("H H * * *", hash_name=name).describe() for name in ("nightly", "report")}
    assert choices == {"nightly": "at 00:59 every day, UTC", "report": "at 03:35 every day, UTC"}
    minutes = [Cron.parse("H * * * *", hash_name=f"job-{n}").pattern.minute.bit_length() - 1 for n in range(1500)]
    assert set(minutes) == set(range(60))
    assert max(minutes.count(minute) for minute in range(60)) < 55
    for n in range(200):
        name = f"job-{n}"
        inside = Cron.parse("H(10-12) H(1-5) H * *", hash_name=name).pattern
        assert 10 <= inside.minute.bit_length() - 1 <= 12
        assert 1 <= inside.hour.bit_length() - 1 <= 5
        assert 1 <= inside.days.days.bit_length() - 1 <= 28
        stepped = [bit for bit in range(60) if Cron.parse("H/15 * * * *", hash_name=name).pattern.minute >> bit & 1]
        assert stepped[0] < 15
        assert all(later - earlier == 15 for earlier, later in pairwise(stepped))
        assert len(stepped) == 4


def test_hash_chooses_each_field_by_itself() -> None:
    pairs = {
        (pattern.minute, pattern.hour)
        for pattern in (Cron.parse("H H * * *", hash_name=f"n{n}").pattern for n in range(500))
    }
    assert len(pairs) > 350


@pytest.mark.parametrize("bad", ["H(5)", "H(5-1)", "H(0-60)", "H/0", "H/61", "H(0-4)/9", "H5", "HH", "H(", "H(1-5"])
def test_a_wrong_hash_is_refused(bad: str) -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse(f"{bad} * * * *", hash_name="x")
    assert (caught.value.field, caught.value.text) == ("minute", bad)


def test_hash_name_matters_only_to_hash() -> None:
    assert [uses_hash(text) for text in ("H * * * *", "0 h/2 * * *", "0 0 1,H * *", "0 0 * MAR THU")] == [True] * 3 + [
        False
    ]
    first, second = (Cron.parse("0 3 * MAR THU", hash_name=name) for name in ("a", "b"))
    assert first.pattern is second.pattern


def test_equal_expressions_share_one_cron() -> None:
    assert Cron.parse("0 3 * * *", timezone="Europe/Berlin") is Cron.parse("0 3 * * *", timezone="Europe/Berlin")
    assert Cron.parse("0 3 * * *") != Cron.parse("0 3 * * *", timezone="Europe/Berlin")
    assert json.dumps(str(Cron.parse("0 3 * * *").expression)) == '"0 3 * * *"'


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("Mars/Olympus_Mons", "use an IANA name"),
        ("America", "use an IANA name"),
        ("../etc/passwd", "use an IANA name"),
        ("", "use an IANA name"),
        ("a\0b", "use an IANA name"),
    ],
)
def test_an_unknown_zone_is_named(name: str, hint: str) -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse("0 3 * * *", timezone=name)
    assert (caught.value.field, caught.value.text) == ("timezone", name)
    assert repr(name) in str(caught.value)
    assert hint in str(caught.value)


def test_a_missing_zone_database_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import zoneinfo

    for module in [name for name in sys.modules if name == "tzdata" or name.startswith("tzdata.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "tzdata", None)
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([])
    zoneinfo.ZoneInfo.clear_cache()
    zone.cache_clear()
    try:
        assert Cron.parse("7 3 1 * *").next(0) == 11_220_000  # UTC needs none
        with pytest.raises(CronError, match=r"'Europe/Oslo'.*pip install tzdata"):
            Cron.parse("7 3 1 * *", timezone="Europe/Oslo")
    finally:
        zoneinfo.reset_tzpath(before)
        zone.cache_clear()


@pytest.mark.parametrize(("option", "value"), [("dst_gap", "run"), ("dst_overlap", "once")])
def test_an_unknown_policy_is_refused(option: str, value: str) -> None:
    with pytest.raises(CronError) as caught:
        Cron.parse("0 3 * * *", **{option: value})  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.text) == (option, value)


def test_the_oracle_knows_the_same_vectors() -> None:
    """The slow oracle of the other tests is itself right on OCPS's own cases."""
    checked = 0
    for pattern, matching, other in OCPS_MATCHES:
        words = pattern.split()
        if len(words) not in (5, 6) or pattern.startswith("@"):
            continue
        oracle = Oracle(pattern)
        checked += 1
        for local, expected in [(each, True) for each in matching] + [(each, False) for each in other]:
            assert oracle.matches(datetime.fromisoformat(local)) is expected, (pattern, local)
    assert checked > 15
