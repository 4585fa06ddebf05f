"""`@queue` and `@handler`: they record, give the function back, and refuse at once what cannot be right."""

from typing import Any

import pytest
from msgspec import Struct

from workfleet import Job, JobType, NewJob, handler, locked, queue
from workfleet.model.declared import Guarded, guards_of, marked
from workfleet.payloads.hints import resolved
from workfleet.queues.declare import HandlerSpec


class Photo(Struct):
    sha: str


RESIZE = JobType("resize", Photo, bytes, queue="images")


async def test_a_decorated_function_stays_the_plain_function() -> None:
    async def plain(job: Job[int]) -> str:
        return f"got {job}"

    decorated = handler("other", attempts=5)(plain)
    assert decorated is plain
    assert await decorated(1) == "got 1"  # type: ignore[arg-type]
    spec = marked(plain, HandlerSpec)
    assert spec is not None
    assert (spec.job.name, spec.options, spec.fixed) == ("other", {"attempts": 5}, False)


def test_types_come_from_the_function_or_from_the_job_type() -> None:
    @handler()
    async def own(job: Job[Photo]) -> list[int]:
        return []

    @handler(RESIZE)
    async def fixed(job: Job[Photo]) -> bytes:
        return b""

    @handler(RESIZE, queue="elsewhere")
    async def moved(job: Job[Photo]) -> bytes:
        return b""

    assert (own.job.name, own.job.queue, resolved(own.job.payload), resolved(own.job.result)) == (
        "own", None, Photo, list[int]
    )  # fmt: skip
    assert fixed.job is RESIZE
    assert (moved.job.queue, moved.job.payload, RESIZE.queue) == ("elsewhere", Photo, "images")
    assert isinstance(own.job(Photo("a")), NewJob)


def test_a_queue_binds_what_names_none() -> None:
    @queue(" images ", concurrency=2)
    class Images:
        @handler()
        async def resize(self, job: Job[Photo]) -> None: ...

        @handler(queue="own")
        async def other(self, job: Job[Photo]) -> None: ...

        @handler(JobType("typed", Photo))
        async def typed(self, job: Job[Photo]) -> None: ...

    assert (Images.resize.job.queue, Images.other.job.queue, Images.typed.job.queue) == ("images", "own", "images")
    assert Images.resize.job(Photo("a")) == JobType("resize", Photo, queue="images")(Photo("a"))


def test_new_jobs_are_values() -> None:
    job = RESIZE(Photo("a"), priority=3)
    assert job == RESIZE(Photo("a"), priority=3)
    assert job != RESIZE(Photo("a"))
    assert job.with_options(delay="1s") == RESIZE(Photo("a"), priority=3, delay="1s")
    assert job.options == {"priority": 3}
    assert {RESIZE, JobType("resize", Photo, queue="images"), RESIZE.on("x")} == {RESIZE, RESIZE.on("x")}
    assert repr(RESIZE) == "JobType('resize', queue='images')"


def test_guards_below_a_handler_are_unwrapped_and_above_it_are_added() -> None:
    @locked("outer")
    @handler()
    @locked("inner")
    async def work(job: Job[int]) -> None: ...

    assert not isinstance(work, Guarded)
    assert [guard.facts["key"] for guard in guards_of(work)] == ["outer", "inner"]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: handler(atempts=3), TypeError, "handler: unknown option 'atempts'; there are attempts, backoff"),
        (lambda: queue(" "), ValueError, "neither empty nor padded"),
        (lambda: queue("a:b"), ValueError, "a name has no ':'"),
        (lambda: queue("q", concurrency=0), ValueError, "concurrency=0: it is 1 to 1,000,000"),
        (lambda: handler()(_no_parameter), TypeError, "_no_parameter: a handler's first parameter is `job: Job"),
        (lambda: handler()(_keywords), TypeError, "_keywords: a handler's first parameter"),
        (lambda: handler("x:" + "y" * 300)(_fine), ValueError, "at most 200 characters"),
    ],
)
def test_what_is_refused_when_it_is_written(make: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said.replace("(", r"\(")):
        make()


async def _no_parameter() -> None: ...


async def _keywords(tenant: int, job: Job[int]) -> None: ...


async def _fine(job: Job[int]) -> None: ...
