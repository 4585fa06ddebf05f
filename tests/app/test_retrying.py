"""Retry rules by exception and backoffs of the application's own, from decorator to the wait that they make."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.app.working import problems, start_problems
from workfleet import App, Fail, Job, Module, exponential, handler, own_backoff, schedule
from workfleet.model.policy import Backoff
from workfleet.testing import Fleet

pytestmark = pytest.mark.usefixtures("project")


class Declined(Exception):
    pass


class SoftlyDeclined(Declined):
    pass


_KINDS = (Declined, SoftlyDeclined, ConnectionError, ConnectionResetError, ValueError, OSError)
KINDS: dict[str, type[BaseException]] = {kind.__name__: kind for kind in _KINDS}


@handler(
    queue="q",
    attempts=3,
    backoff="30s",
    retry={ConnectionError: "1s", ValueError: None, f"{__name__}.Declined": "1m", "OSError": "2s"},
)
async def charge(job: Job[str]) -> None:
    raise KINDS.get(job.data, KeyError)(job.data)


@schedule("nightly", attempts=2, retry={KeyError: "5s"})
async def nightly() -> None:
    raise KeyError


async def attempt_gaps(fleet: Fleet, ref: Any) -> list[int]:
    """The waits between a job's attempts, in seconds, once nothing is left of them."""
    await fleet.travel("1h")
    attempts = await fleet.attempts(ref)
    return [(after.started_ms - before.ended_ms) // 1000 for before, after in pairwise(attempts)]


@pytest.mark.parametrize(
    ("raises", "waits"),
    [
        ("ConnectionError", [1, 1]),
        ("ConnectionResetError", [1, 1]),  # the nearest class decides
        ("OSError", [2, 2]),
        ("Declined", [60, 60]),
        ("SoftlyDeclined", [60, 60]),
        ("ValueError", []),
        ("another", [30, 30]),
    ],
)
async def test_the_exception_decides_the_wait(raises: str, waits: list[int]) -> None:
    async with Fleet(App("shop", jobs=[charge])) as fleet:
        assert await attempt_gaps(fleet, await fleet.enqueue(charge.job(raises))) == waits


async def test_what_a_job_says_replaces_what_its_handler_says() -> None:
    async with Fleet(App("shop", jobs=[charge])) as fleet:
        ref = await fleet.enqueue(charge.job("ValueError", retry={Exception: "3s"}))
        other = await fleet.enqueue(charge.job("ValueError", retry=None, attempts=2))
        assert await attempt_gaps(fleet, ref) == [3, 3]
        assert await attempt_gaps(fleet, other) == [30]


async def test_a_schedule_has_rules_too() -> None:
    async with Fleet(App("shop", jobs=[nightly])) as fleet:
        triggered = await fleet.schedules.trigger("nightly")
        assert await attempt_gaps(fleet, triggered.ref) == [5]


# Own backoffs


def tiers(attempt: int, error: BaseException | None) -> str:
    return "10s" if isinstance(error, KeyError) else f"{attempt}m"


def slow(attempt: int, _error: BaseException | None) -> timedelta:
    return timedelta(hours=attempt)


@handler(queue="q", attempts=3, backoff=own_backoff("tiers"))
async def by_name(job: Job[str]) -> None:
    raise KINDS.get(job.data, KeyError)


@handler(queue="q", attempts=3, backoff=slow, retry={ValueError: tiers, OSError: own_backoff("tiers")})
async def by_function(job: Job[str]) -> None:
    raise KINDS.get(job.data, KeyError)


async def test_own_backoffs_by_name_and_as_they_are() -> None:
    app = App("shop", jobs=[by_name, by_function], backoffs={"tiers": tiers})
    async with Fleet(app) as fleet:
        table = fleet._running.table
        assert table.backoffs == {"tiers": tiers, f"{__name__}.slow": slow, f"{__name__}.tiers": tiers}
        assert table.find("q", "by_function").policy.backoff == own_backoff(f"{__name__}.slow")
        assert table.find("q", "by_function").policy.rules == {
            "ValueError": own_backoff(f"{__name__}.tiers"),
            "OSError": own_backoff("tiers"),
        }
        assert await attempt_gaps(fleet, await fleet.enqueue(by_name.job("another"))) == [10, 10]
        assert await attempt_gaps(fleet, await fleet.enqueue(by_name.job("OSError"))) == [60, 120]
        assert await attempt_gaps(fleet, await fleet.enqueue(by_function.job("ValueError"))) == [60, 120]
        # The store may hold jobs of an older release: a name that nobody knows any more costs only its own wait.
        ref = await fleet.enqueue(by_name.job("another", attempts=2, backoff=own_backoff("gone")))
        (wait,) = await attempt_gaps(fleet, ref)
        assert wait <= 1


async def test_a_name_that_nobody_gives_stops_the_start_with_the_known_ones() -> None:
    found = await start_problems(App("x", jobs=[by_name], backoffs={"other": slow, "more": tiers}))
    assert found == {
        f"{__name__}.by_name": "there is no backoff 'tiers': give it as Module(backoffs={…}). Backoffs: more, other"
    }


async def test_names_in_retry_rules_and_schedules_are_looked_up_too() -> None:
    @handler(retry={ValueError: own_backoff("nothing")})
    async def work(job: Job[int]) -> None: ...

    @schedule(every="1h", backoff=own_backoff("nothing"))
    async def tick() -> None: ...

    for declared in (work, tick):
        (message,) = (await start_problems(App("x", jobs=[declared]))).values()
        assert message.startswith("there is no backoff 'nothing'")


async def test_a_schedule_has_a_backoff_of_its_own() -> None:
    @schedule("own", attempts=3, backoff=slow, retry={OSError: tiers})
    async def own() -> None:
        raise KeyError

    async with Fleet(App("shop", jobs=[own])) as fleet:
        triggered = await fleet.schedules.trigger("own")
        await fleet.travel("4h")
        assert await attempt_gaps(fleet, triggered.ref) == [3600, 7200]


def test_what_is_no_backoff_is_told_at_the_start() -> None:
    async def waits(attempt: int, error: BaseException | None) -> str:
        return "1s"

    one, two = Module("one", backoffs={"tiers": tiers}), Module("two", backoffs={"tiers": slow})
    assert "two backoffs are named 'tiers'" in str(problems(App("x", modules=[one, two])))
    assert "a backoff is a function of the failed attempt's number" in str(
        problems(App("x", backoffs={"one": lambda attempt: "1s"}))  # type: ignore[dict-item,misc]
    )
    assert "a backoff is a plain function" in str(problems(App("x", backoffs={"waits": waits})))  # type: ignore[dict-item]
    assert "backoff '': a name is" in str(problems(App("x", backoffs={"": tiers})))
    same = [Module("one", backoffs={"tiers": tiers}), Module("two", backoffs={"tiers": tiers})]
    assert App("x", modules=same).imports == tuple(same)


async def test_a_wrong_rule_is_told_at_the_start() -> None:
    app = App("x")

    @app.handler(retry={Fail: "1s"})
    async def work(job: Job[int]) -> None: ...

    assert list((await start_problems(app)).values()) == [
        "retry: workfleet.errors.Fail says itself what follows, so no rule can"
    ]


async def test_factor_and_jitter_are_sayable() -> None:
    @handler(queue="q", attempts=4, backoff=exponential("1s", factor=10, jitter="none", cap="20s"))
    async def work(job: Job[int]) -> None:
        raise KeyError

    async with Fleet(App("shop", jobs=[work])) as fleet:
        assert await attempt_gaps(fleet, await fleet.enqueue(work.job(1))) == [1, 10, 20]
        policy = fleet._running.table.find("q", "work").policy
        assert policy.backoff == Backoff("exponential", 1_000, 20_000, "none", 10.0)
        assert policy.rules == {}
