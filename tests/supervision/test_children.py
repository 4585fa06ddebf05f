"""Process groups: what a child has started is gone with it, and nobody believes so too early."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from tests.supervision.fakes import until
from workfleet.app.supervisor.children import Children
from workfleet.clock import SystemClock


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    made = Children(SystemClock())
    made.listen()
    yield made
    made.close()


async def test_a_group_is_gone_when_its_last_process_is(children: Children) -> None:
    child = children.start(["/bin/sh", "-c", "sleep 60 & sleep 60"], os.environ, ())
    assert not await children.gone(child, 0.1)
    assert not child.exited.done()
    child.kill_group()
    assert await child.exited == -9
    assert await children.gone(child, 5)


async def test_a_leader_that_exits_takes_its_group_along(children: Children) -> None:
    child = children.start(["/bin/sh", "-c", "sleep 60 & exit 7"], os.environ, ())
    assert await child.exited == 7
    assert await children.gone(child, 5)


async def test_many_ends_behind_one_signal_are_all_seen(children: Children) -> None:
    started = [children.start(["/bin/sh", "-c", f"exit {number}"], os.environ, ()) for number in range(8)]
    await until(lambda: all(child.exited.done() for child in started))
    assert [child.exited.result() for child in started] == list(range(8))


async def test_what_cannot_be_started_raises_and_leaves_nothing(children: Children) -> None:
    with pytest.raises(FileNotFoundError):
        children.start(["/nowhere/at/all"], os.environ, ())
