"""Contract of `LedgerStore`."""

from __future__ import annotations

from typing import Any

import pytest

from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store

from .harness import ManualClock, Opener

_HOUR_MS = 3_600_000
_KEEP = LedgerKeep(age_ms=24 * _HOUR_MS, count=1_000)


@pytest.mark.asyncio
class TestLedger:
    async def test_rows_are_read_as_they_were_written(self, store: Store, clock: ManualClock) -> None:
        now = clock.now_ms()
        full = LedgerRow(
            id="2",
            at_ms=now,
            schedule="s",
            outcome="failed",
            slot_ms=now - 70,
            job_id="j",
            attempt=2,
            started_ms=now - 60,
            worker="w1",
            error="it\x00 broke: \u00e9",
        )
        bare = LedgerRow(id="1", at_ms=now - 1, schedule="s", outcome="missed", slot_ms=5, error="late", count=3)
        await store.ledger.record([full, bare], _KEEP)
        assert await store.ledger.history("s") == [full, bare]
        assert (full.ended_ms, full.duration_ms, bare.ended_ms, bare.duration_ms) == (now, 60, None, None)

    async def test_newest_first_and_within_an_instant_by_id(self, store: Store, clock: ManualClock) -> None:
        now = clock.now_ms()
        for words in ("5:b 7:a", "5:a 6:x", "5:c"):
            await store.ledger.record([_row(word, now) for word in words.split()], _KEEP)
        assert await _ids(store) == "a x c b a"
        assert await _ids(store, limit=2) == "a x"

    async def test_a_repeat_adds_nothing(self, store: Store, clock: ManualClock) -> None:
        rows = [_row(f"{n}:r{n}", clock.now_ms()) for n in range(3)]
        await store.ledger.record(rows[:2], _KEEP)
        await store.ledger.record(rows, _KEEP)
        assert await store.ledger.history("s") == rows[::-1]

    async def test_schedules_have_rows_of_their_own(self, store: Store, clock: ManualClock) -> None:
        now = clock.now_ms()
        await store.ledger.record([_row("1:a", now), _row("2:b", now, schedule="a:b {c}*")], _KEEP)
        assert await _ids(store) == "a"
        assert await _ids(store, "a:b {c}*") == "b"
        assert await store.ledger.history("none") == []

    async def test_apps_have_rows_of_their_own(self, store: Store, clock: Clock, opener: Opener) -> None:
        await store.ledger.record([_row("1:a", clock.now_ms())], _KEEP)
        other = await opener("other", clock)
        assert await other.ledger.history("s") == []
        assert await other.ledger.prune(1) == 0
        await other.close()
        assert await _ids(store) == "a"

    async def test_of_each_schedule_the_newest_are_kept(self, store: Store, clock: ManualClock) -> None:
        now = clock.now_ms()
        three = LedgerKeep(age_ms=_HOUR_MS, count=3)
        await store.ledger.record([_row(f"{n}:s{n}", now) for n in range(5)], three)
        await store.ledger.record([_row(f"{n}:t{n}", now, schedule="t") for n in range(3)], three)
        assert await _ids(store) == "s4 s3 s2"
        assert await _ids(store, "t") == "t2 t1 t0"
        # One that is older than all that are kept is not kept itself.
        await store.ledger.record([_row("1:late", now)], three)
        assert await _ids(store) == "s4 s3 s2"

    async def test_a_large_count_is_kept_to_as_well(self, store: Store, clock: ManualClock) -> None:
        now, many = clock.now_ms(), LedgerKeep(age_ms=_HOUR_MS, count=64)
        for start in range(0, 1_600, 50):
            await store.ledger.record([_row(f"{n}:{n:04}", now) for n in range(start, start + 50)], many)
        rows = await store.ledger.history("s", 10_000)
        assert [row.id for row in rows] == [f"{n:04}" for n in range(1_599, 1_599 - len(rows), -1)]
        assert 64 <= len(rows) <= 64 + 50

    async def test_what_is_too_old_goes_with_the_next_row(self, store: Store, clock: ManualClock) -> None:
        await store.ledger.record([_row("0:a", clock.now_ms())], _KEEP)
        await clock.advance(_HOUR_MS)
        hour = LedgerKeep(age_ms=_HOUR_MS, count=1_000)
        await store.ledger.record([_row("0:b", clock.now_ms())], hour)
        assert await _ids(store) == "b a"
        await clock.advance(1)
        await store.ledger.record([_row("0:c", clock.now_ms())], hour)
        assert await _ids(store) == "c b"

    async def test_prune_deletes_what_is_too_old_of_every_schedule(self, store: Store, clock: ManualClock) -> None:
        start = clock.now_ms()
        rows = [_row(f"{n}:{name}{n}", start, schedule=name) for n in range(3) for name in "st"]
        await store.ledger.record(rows, _KEEP)
        await clock.advance(_HOUR_MS + 2)
        assert await store.ledger.prune(_HOUR_MS) == 4
        assert (await _ids(store), await _ids(store, "t")) == ("s2", "t2")
        assert await store.ledger.prune(_HOUR_MS) == 0
        await clock.advance(1)
        # In small steps, too, all of it goes.
        assert [await store.ledger.prune(_HOUR_MS, limit=1) for _ in range(3)] == [1, 1, 0]
        assert (await _ids(store), await _ids(store, "t")) == ("", "")

    async def test_any_text_can_be_kept(self, store: Store, clock: ManualClock) -> None:
        await store.ledger.record([_row("0:a", clock.now_ms(), error="\ud800 broke", worker="w\udcff")], _KEEP)
        (row,) = await store.ledger.history("s")
        assert (row.error, row.worker) == ("\\ud800 broke", "w\\udcff")

    async def test_retention_of_jobs_is_another_matter(self, store: Store, clock: ManualClock) -> None:
        await store.ledger.record([_row("0:a", clock.now_ms())], _KEEP)
        await clock.advance(2 * _HOUR_MS)
        await store.jobs.prune([])
        assert await _ids(store) == "a"


def _row(word: str, start_ms: int, *, schedule: str = "s", **said: Any) -> LedgerRow:
    """A row from "<milliseconds after the start>:<id>"."""
    at, _, row_id = word.partition(":")
    return LedgerRow(id=row_id, at_ms=start_ms + int(at), schedule=schedule, outcome="completed", **said)


async def _ids(store: Store, schedule: str = "s", limit: int = 100) -> str:
    return " ".join([row.id for row in await store.ledger.history(schedule, limit)])
