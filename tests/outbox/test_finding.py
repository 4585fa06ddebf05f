"""What is said of a job that is still in the outbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.outbox.database import APP, Database
from workfleet import JobType
from workfleet.outbox.source import Left, Source

MAIL = JobType("mail", int, None, queue="emails")


@pytest.fixture
async def source(database: Database) -> AsyncIterator[Source]:
    made = database.source()
    yield made
    await made.close()


def left(found: Left | None) -> Any:
    assert found is not None
    return found.ahead, found.error


async def test_how_many_are_moved_before_it(database: Database, source: Source) -> None:
    database.add([MAIL(number, id=f"m{number}") for number in range(4)])
    database.execute("UPDATE workfleet_outbox SET error = 'no JSON' WHERE id = 'm0'")
    database.execute("UPDATE workfleet_outbox SET v = 99 WHERE id = 'm1'")
    assert left(await source.find("m3")) == (1, ""), "m2 only: nobody moves the first two"
    assert left(await source.find("m0")) == (0, "no JSON")
    ahead, error = left(await source.find("m1"))
    assert (ahead, error.startswith("its row is of a newer version")) == (0, True)
    assert await source.find("m4") is None
    other = database.source("another app")
    assert await other.find("m3") is None
    await other.close()


async def test_while_it_is_held_it_is_there_and_then_it_is_gone(database: Database, source: Source) -> None:
    database.add([MAIL(1, id="m1"), MAIL(2, id="m2")])
    relay = database.source(APP)
    moved = await relay.take(1)
    assert left(await source.find("m2")) == (1, "")
    await relay.finish(moved, [])
    assert (await source.find("m1"), left(await source.find("m2"))) == (None, (0, ""))
    await relay.close()
