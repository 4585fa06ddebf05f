"""A fixed sample of `make soak-cron`: the engine beside a clock that is watched, in the zones that are hard."""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise

import pytest

from tests.schedules.cron_changes import LAST, Change, by_shape, changes
from tests.schedules.cron_comparing import POLICIES, by_minute, by_second, in_every_zone, increasing, with_cronsim
from tests.schedules.cron_oracle import Oracle
from tests.schedules.cron_samples import MINUTES, SECONDS, TEN, drawn_wide, many
from tests.schedules.cron_watch import Watch
from tests.schedules.hard_zones import HARD
from tests.schedules.soak_cron import main
from workfleet.model.cron import zone

DEFAULT = [("shift", "first")]
ZONES = sorted({zone for zone, _, _ in HARD})
# Changes are looked for from 2000 on, and where the hard ones lie.
SINCE = 946_684_800
OLD = {"Africa/Monrovia": 0, "Pacific/Kwajalein": 725_846_400, "Asia/Kathmandu": 473_385_600}


@cache
def hard() -> tuple[Change, ...]:
    """One change of every shape."""
    found = [
        change for zone in ZONES for change in changes(zone, OLD.get(zone, SINCE), OLD.get(zone, SINCE) + LAST // 3)
    ]
    return tuple(by_shape(found, 1))


def test_the_sample_holds_many_shapes() -> None:
    assert len(hard()) >= 20
    assert {abs(change.after - change.before) for change in hard()} >= {900, 1800, 2670, 3600, 7200, 86_400}


def test_minute_by_minute() -> None:
    expressions = many(60, seed=5)
    assert [told for change in hard() for told in by_minute(change, expressions, DEFAULT)] == []


def test_minute_by_minute_with_every_policy() -> None:
    assert [told for change in hard() for told in by_minute(change, MINUTES[::3], POLICIES)] == []


def test_second_by_second() -> None:
    short = [change for change in hard() if abs(change.after - change.before) < 86_400]
    assert [told for change in short[::5] for told in by_second(change, SECONDS, POLICIES[:5:2])] == []


def test_zones_that_change_alike_are_alike() -> None:
    zones = ("Europe/Berlin", "Europe/Paris", "Arctic/Longyearbyen")
    alike = [change for zone in zones for change in changes(zone, 1_767_225_600, 1_783_000_000)]
    assert len({change.key for change in alike}) == 1
    assert list(in_every_zone(alike, TEN)) == []


def test_cronsim() -> None:
    (change,) = changes("America/New_York", 1_767_225_600, 1_783_000_000)
    assert list(with_cronsim(change, TEN, 12)) == []


def test_a_daily_job_runs_once_a_day_for_decades() -> None:
    for name in ("America/Havana", "Pacific/Apia"):
        for expression in ("0 0 * * *", "30 2 * * *"):
            assert list(increasing(name, expression, SINCE, LAST)) == []


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that forgot the policy is caught."""
    (change,) = changes("Europe/Berlin", 1_767_225_600, 1_783_000_000)
    due = Watch.due
    monkeypatch.setattr(Watch, "due", lambda self, oracle, **_: due(self, oracle, gap="skip"))
    (forwards, backwards) = by_minute(change, ["30 2 * * *"], DEFAULT)
    assert forwards == (
        "Europe/Berlin at 2026-03-29T01:00:00Z (+3600 to +7200): 30 2 * * * (shift, first): beside the clock: "
        "1 too many: 2026-03-29T01:00:00Z"
    )
    assert "backwards" in backwards


def test_the_watched_clock_and_the_first_oracle_agree() -> None:
    draw = random.Random(7)
    for change in hard()[::4]:
        start, end = (change.at - 26 * 3600) // 60 * 60, (change.at + 26 * 3600) // 60 * 60
        watch = Watch(change.zone, start - 86_400, end + 86_400)
        for expression in ("30 2 * * *", "15,45 0-3,23 * * *", drawn_wide(draw)):
            oracle = Oracle(expression)
            for gap, overlap in POLICIES:
                seen = [at for at in watch.due(oracle, gap=gap, overlap=overlap) if start <= at < end]
                assert seen == oracle.due(change.zone, start, end, gap=gap, overlap=overlap), (change, expression)


@pytest.mark.full
def test_the_soak_as_a_whole_on_two_zones(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["--zones", "Europe/Lisbon,Pacific/Apia", "--parts", "seconds,cronsim,every,increasing", "--jobs", "2"])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 zones, ")
    assert [line.rpartition(", ")[2] for line in lines[1:-1]] == ["0 differ"] * 4
    assert lines[-1].startswith("0 differences, ")


@pytest.mark.parametrize("name", ["America/Boa_Vista", "Asia/Gaza", "Africa/El_Aaiun", "America/Argentina/Tucuman"])
def test_changes_a_week_apart_are_found(name: str) -> None:
    """Boa Vista's clock was set forward for a week in 2000, Gaza's will be."""
    found, place, at, last = list[int](), zone(name), 0, 4_000_000_000
    while at < last:
        span = place.at(at)
        if span.end < last and span.offset != place.at(span.end).offset:
            found.append(span.end)
        at = span.end
    assert found == [change.at for change in changes(name, 0, last)]
    assert min(later - earlier for earlier, later in pairwise(found)) < 21 * 86_400
