"""What pulses make known in their process."""

from __future__ import annotations

from workfleet.stores.news import News
from workfleet.stores.wakes import SCHEDULES, Wakes, queue_topic


class Hands:
    """A clock that is set by hand."""

    at = 100.0

    def now_ms(self) -> int:
        raise AssertionError("the store says the time")

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing waits here, not even {seconds} s")


class Room:
    """News, and what it has told since somebody looked."""

    def __init__(self) -> None:
        self.clock = Hands()
        self.wakes = Wakes(self.clock)
        self.news = News(self.wakes, self.clock)

    async def told(self, revision: int, now_ms: int, *queues: str) -> list[str]:
        self.news.hear(revision, now_ms, queues)
        topics = [SCHEDULES, queue_topic("p"), queue_topic("q")]
        return [topic for topic in topics if await self.wakes.wait([topic], 0)]


async def test_another_revision_is_news_be_it_a_smaller_one() -> None:
    room = Room()
    assert await room.told(7, 0) == [SCHEDULES]
    assert await room.told(7, 0) == []
    assert await room.told(8, 0) == [SCHEDULES]
    assert await room.told(0, 0) == [SCHEDULES]  # the server has lost what it had
    assert await room.told(0, 0) == []


async def test_a_jump_of_the_stores_time_is_news_and_its_passing_is_not() -> None:
    room = Room()
    await room.told(1, 50_000)
    room.clock.at += 10
    assert await room.told(1, 60_000) == []
    room.clock.at += 10
    assert await room.told(1, 70_999) == []
    room.clock.at += 10
    assert await room.told(1, 380_000) == [SCHEDULES]  # this machine was asleep
    room.clock.at += 10
    assert await room.told(1, 390_000) == []
    room.clock.at += 10
    assert await room.told(1, 100_000) == [SCHEDULES]  # the server's clock was set back


async def test_queues_are_news_each_time() -> None:
    room = Room()
    assert await room.told(1, 0, "q") == [SCHEDULES, "queue q"]
    assert await room.told(1, 0, "q", "p") == ["queue p", "queue q"]
    assert await room.told(1, 0) == []
