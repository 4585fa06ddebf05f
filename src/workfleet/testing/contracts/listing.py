"""Contract of `JobQuery`: tags, groups, age, text, pages."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from workfleet.model.jobs import Failure, JobState
from workfleet.model.outcome import Ended
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store

from .harness import ManualClock, claim, finish, ids, job, jobs


async def found(store: Store, query: JobQuery) -> str:
    return ids(await store.jobs.find(query))


@pytest.mark.asyncio
class TestListing:
    async def test_by_tag(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", tags=("x", "y z")), job("b", tags=("xy",)), job("c"), job("d", tags=("x",))])
        assert await found(store, JobQuery(tag="x")) == "d a"
        assert await found(store, JobQuery(tag="y z")) == "a"
        assert await found(store, JobQuery(tag="y")) == ""
        assert await found(store, JobQuery(tag="")) == ""
        assert await found(store, JobQuery(tag='"')) == ""

    async def test_by_group(self, store: Store) -> None:
        await store.jobs.enqueue([job("a", group="g"), job("b", group="gg"), job("c")])
        assert await found(store, JobQuery(group="g")) == "a"
        assert await found(store, JobQuery(group="")) == "c"
        assert await found(store, JobQuery(group="none")) == ""

    async def test_by_age(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        for name in "abcd":
            await store.jobs.enqueue([job(name)])
            await clock.advance(10)
        assert await found(store, JobQuery(created_from_ms=now + 10)) == "d c b"
        assert await found(store, JobQuery(created_from_ms=now + 11)) == "d c"
        assert await found(store, JobQuery(created_before_ms=now + 10)) == "a"
        assert await found(store, JobQuery(created_before_ms=now + 11)) == "b a"
        assert await found(store, JobQuery(created_from_ms=now + 10, created_before_ms=now + 30)) == "c b"
        assert await found(store, JobQuery(created_from_ms=now + 30, created_before_ms=now + 10)) == ""

    async def test_by_text_in_the_payload(self, store: Store) -> None:
        await store.jobs.enqueue(
            [
                job("a", payload=b'{"user":"Ann_Lee","n":100}'),
                job("b", payload=b'{"user":"annXlee"}'),
                job("c", payload='{"user":"Änn"}'.encode()),
                job("d", name="ann_lee", tags=("ann_lee",), metadata={"x": "ann_lee"}),
                job("e", payload=b'"100%"'),
            ]
        )
        assert await found(store, JobQuery(text="ann_lee")) == "a"
        assert await found(store, JobQuery(text="ANN")) == "b a"
        assert await found(store, JobQuery(text="Änn")) == "c"
        assert await found(store, JobQuery(text="änn")) == ""
        assert await found(store, JobQuery(text="ÄNN")) == "c"
        assert await found(store, JobQuery(text="100%")) == "e"
        assert await found(store, JobQuery(text='"n":100')) == "a"
        assert await found(store, JobQuery(text="%")) == "e"
        assert await found(store, JobQuery(text="'")) == ""
        assert await found(store, JobQuery(text="*")) == ""
        assert await found(store, JobQuery(text="")) == "e d c b a"

    async def test_by_text_in_the_failure(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a b c d"))
        failures = [
            Failure("raised", "the Disk is full", "OSError", "Traceback: secret"),
            Failure("timed_out", "after 5 s"),
            Failure("failed", "no", "shop.Declined"),
        ]
        for record, failure in zip(await claim(store, 3), failures, strict=True):
            await finish(store, [record], Ended(kind="failed", failure=failure))
        assert await found(store, JobQuery(text="disk")) == "a"
        assert await found(store, JobQuery(text="oserror")) == "a"
        assert await found(store, JobQuery(text="SHOP.declined")) == "c"
        assert await found(store, JobQuery(text="secret")) == ""
        assert await found(store, JobQuery(text="raised")) == ""
        assert await found(store, JobQuery(text="timed_out")) == ""
        assert await found(store, JobQuery(text="null")) == "d c b a"
        assert await found(store, JobQuery(text="5 S", states=(JobState.FAILED,))) == "b"
        assert await found(store, JobQuery(text="5 S", states=(JobState.WAITING,))) == ""

    async def test_page_by_page(self, store: Store, clock: ManualClock) -> None:
        for names in ("b a d", "c", "f e"):
            await store.jobs.enqueue(jobs(names))
            await clock.advance(5)
        pages, after = [], None
        while page := await store.jobs.find(JobQuery(limit=4, after=after)):
            pages.append(ids(page))
            after = (page[-1].created_ms, page[-1].id)
            # What comes or goes meanwhile shifts no page.
            await store.jobs.enqueue(jobs(f"new{len(pages)}"))
            await store.jobs.delete([page[-1].id])
        assert pages == ["f e c d", "b a"]

    async def test_after_what_is_not_there_and_with_filters(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        await store.jobs.enqueue([job("a", tags=("t",)), job("b"), job("c", tags=("t",)), job("d", tags=("t",))])
        assert await found(store, JobQuery(after=(now, "bb"))) == "b a"
        assert await found(store, JobQuery(after=(now, "d"), tag="t")) == "c a"
        assert await found(store, JobQuery(after=(now, "d"), tag="t", offset=1)) == "a"
        assert await found(store, JobQuery(after=(now, "d"), limit=1)) == "c"
        assert await found(store, JobQuery(after=(now - 1, "z"))) == ""
        assert await found(store, JobQuery(after=(now + 1, ""))) == "d c b a"

    async def test_all_filters_at_once(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        said: dict[str, Any] = {"queue": "q", "name": "n", "tags": ("t",), "group": "g", "payload": b'"text"'}
        others = [
            {**said, field: value}
            for field, value in (
                ("queue", "r"),
                ("name", "m"),
                ("tags", ()),
                ("group", ""),
                ("payload", b'"tex"'),
                ("delay_ms", 5),
                ("housekeeping", True),
            )
        ]
        await store.jobs.enqueue([job("it", **said), *(job(f"o{n}", **other) for n, other in enumerate(others))])
        query = JobQuery(
            queue="q",
            states=(JobState.WAITING,),
            name="n",
            housekeeping=False,
            tag="t",
            group="g",
            created_from_ms=now,
            created_before_ms=now + 1,
            text="text",
        )
        assert await found(store, query) == "it"

    async def test_any_two_filters_together(self, store: Store) -> None:
        said: dict[str, Any] = {"name": "n", "tags": ("t",), "group": "g", "payload": b'"text"'}
        await store.jobs.enqueue([job("it", **said), job("other"), job("own", housekeeping=True)])
        await finish(store, await claim(store, 9))
        it, now = (await store.jobs.get(["it"]))[0], await store.now_ms()
        assert it is not None
        fitting: dict[str, Any] = {
            "queue": "q",
            "states": (JobState.COMPLETED,),
            "name": "n",
            "tag": "t",
            "group": "g",
            "text": "text",
            "created_from_ms": now,
            "created_before_ms": now + 1,
            "after": (now, "other"),
        }
        missing: dict[str, Any] = {
            "queue": "r",
            "states": (),
            "name": "m",
            "tag": "u",
            "group": "h",
            "text": "zzz",
            "created_from_ms": now + 1,
            "created_before_ms": now,
            "after": (now, "a"),
        }
        for one, other in itertools.permutations(fitting, 2):
            both = {one: fitting[one], other: fitting[other], "housekeeping": False}
            assert "it" in (await found(store, JobQuery(**both))).split(), both
            for states in ((JobState.ACTIVE,), (JobState.FAILED,), (JobState.WAITING, JobState.ACTIVE)):
                assert await found(store, JobQuery(**both | {"states": states})) == "", both
            assert await found(store, JobQuery(**both | {other: missing[other]})) == "", both
