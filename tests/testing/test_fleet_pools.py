"""The pools of a `Fleet` are doubles: the real classes, here, with a child that dies when the test says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from dishka import Provider, Scope

from workfleet import (
    App,
    CallTimeout,
    ConfigError,
    Job,
    JobFailed,
    MemoryLimitExceeded,
    Module,
    NotFound,
    PayloadRejected,
    Pool,
    Pools,
    UsageError,
    circuit_breaker,
    handler,
    on_shutdown,
    on_start,
    process,
    public,
    queue,
)
from workfleet.testing import Fleet


class Files:
    """Something that a worker class needs."""

    def __init__(self) -> None:
        self.log: list[str] = []


@process("images", size=3)
class ImageWorker:
    def __init__(self, files: Files) -> None:
        self.files, self.seen = files, list[str]()

    @on_start
    def load(self) -> None:
        self.files.log.append("start")

    @public
    @circuit_breaker(threshold=3, reset_after="30s")
    def resize(self, job_id: str, data: bytearray, width: int) -> int:
        data.append(0)  # the caller's own data must not change: it is in another process
        self.seen.append(job_id)
        return min(len(data), width)

    @public
    async def seen_so_far(self) -> list[str]:
        return self.seen

    @public
    def frames(self, count: int) -> Iterator[int]:
        yield from range(count)

    @public
    def unsendable(self) -> object:
        return lambda: None

    def private(self) -> None: ...

    @on_shutdown
    async def close(self) -> None:
        self.files.log.append("stop")


@dataclass(frozen=True)
class Photo:
    path: str


@dataclass(frozen=True)
class Secret:
    """What cannot be pickled."""

    number: int

    def __reduce__(self) -> str:
        raise TypeError("it stays here")


@queue("media")
class Media:
    def __init__(self, images: Pool[ImageWorker]) -> None:
        self.images = images

    @handler("thumbnail", attempts=3, backoff="1s")
    async def thumbnail(self, job: Job[Photo]) -> int:
        data = bytearray(b"abc")
        size = await self.images.resize(job.id, data, width=100)
        assert data == b"abc"
        return size + sum([frame async for frame in self.images.frames(3)])

    @handler("measure", pool="cpu", attempts=1)
    def measure(self, job: Job[Secret]) -> int:
        return job.data.number

    @handler("checksum", pool="cpu", timeout="30s")
    def checksum(self, job: Job[dict[str, list[int]]]) -> int:
        job.data["parts"].append(1)
        return sum(job.data["parts"])


def make_app(*jobs: object) -> App:
    files = Provider(scope=Scope.APP)
    files.provide(Files)
    return App("media", modules=[Module("photos", providers=[files], jobs=jobs or [Media, ImageWorker])])


async def test_a_handler_uses_the_real_class_behind_a_proxy() -> None:
    async with Fleet(make_app()) as fleet:
        ref = await fleet.enqueue(Media.thumbnail.job(Photo("a.jpg")))
        assert fleet.pool(ImageWorker).served is None  # made at the first call
        await fleet.run_until_idle()
        assert await ref.result() == 4 + 3
        assert fleet.pool(ImageWorker).calls == ["resize", "frames"]
        assert fleet.pool("images") is fleet.pool(ImageWorker)
        files = await fleet.get(Files)
        assert files.log == ["start"]
    assert files.log == ["start", "stop"]


async def test_a_child_that_dies_costs_one_attempt_and_what_it_remembered() -> None:
    async with Fleet(make_app()) as fleet:
        images = (await fleet.get(Media)).images
        await images.resize("before", bytearray(), 1)
        fleet.pool(ImageWorker).crash_next(signal="SIGSEGV")
        ref = await fleet.enqueue(Media.thumbnail.job(Photo("a.jpg")))
        await fleet.run_until_idle()
        assert await ref.result() == 7
        first, second = await fleet.attempts(ref)
        assert first.failure is not None
        assert (first.failure.code, first.failure.message.partition("(")[2]) == ("child_died", "signal SIGSEGV)")
        assert second.outcome == "completed"
        assert await images.seen_so_far() == [ref.id]
        assert (await fleet.get(Files)).log == ["start", "start"]  # no shutdown hook of a killed child


async def test_guards_of_a_pool_s_method_see_the_death() -> None:
    async with Fleet(make_app()) as fleet:
        for _ in range(3):
            fleet.pool(ImageWorker).crash_next()
        ref = await fleet.enqueue(Media.thumbnail.job(Photo("a.jpg"), attempts=4, backoff="1s"))
        await fleet.run_until_idle()
        codes = [attempt.failure.code for attempt in await fleet.attempts(ref) if attempt.failure]
        assert codes == ["child_died", "child_died", "child_died", "circuit_open"]
        assert fleet.pool(ImageWorker).calls == ["resize"] * 3


async def test_a_handler_in_a_pool_runs_here_with_a_copy_and_can_die() -> None:
    async with Fleet(make_app()) as fleet:
        payload = {"parts": [1, 2]}
        ref = await fleet.enqueue(Media.checksum.job(payload))
        fleet.pool("cpu").crash_next()
        await fleet.run_until_idle()
        assert await ref.result() == 4
        assert payload == {"parts": [1, 2]}
        assert [a.failure.code if a.failure else None for a in await fleet.attempts(ref)] == ["child_died", None]
        assert fleet.pool("cpu").calls == ["Media.checksum"] * 2


async def test_what_cannot_travel_fails_as_it_would_with_a_child() -> None:
    async with Fleet(make_app()) as fleet:
        images = (await fleet.get(Media)).images
        with pytest.raises(PayloadRejected, match=r"arguments of images\.resize: \$\[0\]: function cannot be sent"):
            await images.resize(lambda: None, bytearray(), 1)  # type: ignore[arg-type]
        with pytest.raises(PayloadRejected, match=r"result of images\.unsendable"):
            await images.unsendable()
        ref = await fleet.enqueue(Media.measure.job(Secret(1)))
        await fleet.run_until_idle()
        with pytest.raises(JobFailed, match=r"payload of Media\.measure: \$: Secret cannot be sent between processes"):
            await ref.result()
        with pytest.raises(AttributeError, match="no public method 'private'"):
            images.private()
        with pytest.raises(TypeError, match="width"):
            await images.resize("a", bytearray(), wide=1)  # type: ignore[call-arg]


async def test_a_plain_object_may_stand_in_for_the_worker() -> None:
    class Fake(ImageWorker):
        def __init__(self) -> None:
            self.asked: list[int] = []

        async def resize(self, job_id: str, data: bytearray, width: int) -> int:
            self.asked.append(width)
            return 1

        def load(self) -> None: ...
        async def close(self) -> None: ...

    fake = Fake()
    async with Fleet(make_app(), replace={ImageWorker: fake}) as fleet:
        ref = await fleet.enqueue(Media.thumbnail.job(Photo("a.jpg")))
        await fleet.run_until_idle()
        assert await ref.result() == 1 + 3
        assert fake.asked == [100]


async def test_code_that_asks_for_pools_gets_the_same_doubles() -> None:
    app = make_app(ImageWorker)

    @app.handler(queue="media")
    async def many(job: Job[None], pools: Pools) -> int:
        images = await pools.pool(ImageWorker, size=8)
        await pools.scale(ImageWorker, 12)
        return await images.resize(job.id, bytearray(b"a"), width=9)

    async with Fleet(app) as fleet:
        assert fleet.pool(ImageWorker).size == 3
        ref = await fleet.enqueue(many.job(None))
        await fleet.run_until_idle()
        assert await ref.result() == 2
        assert fleet.pool(ImageWorker).size == 12
        pools = await fleet.get(Pools)
        assert await pools.pool(ImageWorker) is await pools.pool(ImageWorker, size=8)
        assert fleet.pool(ImageWorker).size == 12  # what it was scaled to stays
        with pytest.raises(UsageError, match="it cannot have size=9"):
            await pools.pool(ImageWorker, size=9)
    async with Fleet(make_app()) as fleet:  # a pool that is injected has started with what its class says
        pools = await fleet.get(Pools)
        with pytest.raises(UsageError, match="exists with size=3: it cannot have size=8"):
            await pools.pool(ImageWorker, size=8)
        with pytest.raises(NotFound, match=r"there is no pool 'image'\. Pools: cpu, images"):
            fleet.pool("image")


async def test_what_is_wrong_at_a_real_start_is_wrong_here() -> None:
    app = make_app()

    @app.handler(queue="media", pool="gpu")
    def render(job: Job[None]) -> None: ...

    with pytest.raises(ConfigError, match=r"pool='gpu': there is no such pool\. Pools: cpu, images"):
        async with Fleet(app):
            pass

    @process("odd", size=0)
    class Odd:
        @public
        def work(self) -> None: ...

    with pytest.raises(ConfigError, match="pool odd: size"):
        async with Fleet(make_app(Media, ImageWorker, Odd)):
            pass


@process("rows", strategy="consistent_hash", hash_key="{tenant}")
class Rows:
    @public
    def count(self, customer: str) -> int:
        return len(customer)


async def test_a_key_and_an_isolation_that_cannot_work_fail_here_too() -> None:
    with pytest.raises(ConfigError, match=r"Rows\.count: hash_key of pool 'rows': \{tenant\}"):
        async with Fleet(make_app(Media, ImageWorker, Rows)):
            pass

    @process("threads", isolation="thread")
    class Threads:
        @public
        def work(self) -> None: ...

    app = make_app(Media, ImageWorker, Threads)

    @app.handler(queue="media", pool="threads")
    def render(job: Job[None]) -> None: ...

    with pytest.raises(ConfigError, match="pool='threads' has isolation='thread', and handlers run in pools of proc"):
        async with Fleet(app):
            pass


async def test_a_call_that_takes_longer_than_its_timeout_costs_an_attempt_when_that_is_over() -> None:
    async with Fleet(make_app(), now="2027-01-01T00:00Z") as fleet:
        images = fleet.pool(ImageWorker)
        images.takes("5m", method="resize")
        ref = await fleet.enqueue(Media.thumbnail.job(Photo("a.jpg"), attempts=2, backoff="1s"))
        await fleet.run_until_idle()
        first, second = await fleet.attempts(ref)
        assert (first.failure and first.failure.code, first.ended_ms - first.started_ms) == ("call_timeout", 60_000)
        assert (second.failure and second.failure.code, second.started_ms - first.ended_ms) == ("call_timeout", 1_000)
        images.takes("30s", method="resize")
        ref = await fleet.enqueue(Media.thumbnail.job(Photo("a.jpg")))
        await fleet.run_until_idle()
        (run,) = await fleet.attempts(ref)
        assert (run.outcome, run.ended_ms - run.started_ms) == ("completed", 30_000)


async def test_a_handler_in_a_pool_that_takes_longer_than_its_job_s_timeout_has_timed_out() -> None:
    async with Fleet(make_app()) as fleet:
        fleet.pool("cpu").takes("2m")
        ref = await fleet.enqueue(Media.checksum.job({"parts": [1]}, attempts=1))
        await fleet.run_until_idle()
        (run,) = await fleet.attempts(ref)
        assert (run.outcome, run.failure and run.failure.code) == ("timed_out", "timed_out")
        assert run.ended_ms - run.started_ms == 30_000
        fleet.pool("cpu").takes("10s", method="Media.checksum")
        quick = await fleet.enqueue(Media.checksum.job({"parts": [1]}))
        await fleet.run_until_idle()
        (run,) = await fleet.attempts(quick)
        assert (run.outcome, run.ended_ms - run.started_ms) == ("completed", 10_000)


async def test_memory_and_timeouts_of_a_pool_are_seen_by_its_callers() -> None:
    @process("small", memory="100MB")
    class Small:
        @public
        def work(self) -> int:
            return 1

    async with Fleet(make_app(Small)) as fleet:
        pools = await fleet.get(Pools)
        small, double = await pools.pool(Small), fleet.pool(Small)
        double.exceed_memory_next(used="300MB")
        with pytest.raises(MemoryLimitExceeded, match=r"small\.work used 300 MB, the limit is 100 MB"):
            await small.work()
        double.time_out_next()
        with pytest.raises(CallTimeout, match=r"small\.work did not end within 60 s"):
            await small.work()
        assert await small.work() == 1
        assert pools.list() == ("cpu", "small")
        assert (pools.stats()["small"].calls, pools.stats()["cpu"].state) == (3, "new")
        double.takes("1s")
        with pytest.raises(UsageError, match="only the test moves the fleet's clock"):
            await small.work()


async def test_sizes_are_checked_as_a_real_pool_does() -> None:
    @process("elastic", min_size=1, max_size=4)
    class Elastic:
        @public
        def work(self) -> None: ...

    async with Fleet(make_app(Elastic)) as fleet:
        pools = await fleet.get(Pools)
        await pools.scale(Elastic, 4)
        assert fleet.pool(Elastic).size == 4
        with pytest.raises(UsageError, match="scales itself between min_size=1 and max_size=4"):
            await pools.scale(Elastic, 5)
        with pytest.raises(UsageError, match="at least 1"):
            await pools.scale("cpu", 0)
