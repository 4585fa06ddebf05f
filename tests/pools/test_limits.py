"""What a child may use is held to, by whoever sees it first, and its end says what it used."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import begun
from tests.pools.users import User
from tests.pools.workers import Basic
from workfleet.errors import ChildDied, PoolFailed
from workfleet.events import ChildDied as ChildDiedEvent
from workfleet.pools import exits
from workfleet.pools.options import ChildSpec, RestartPolicy

BASIC, USER = ChildSpec.of(Basic), ChildSpec.of(User)
MB = 1_000_000


async def test_a_child_that_dies_tells_what_it_held_at_most(make_pool: MakePool) -> None:
    made = make_pool(USER)
    await made.pool.wait_ready()
    held = exits.own_peak_bytes() + 50 * MB
    with pytest.raises(ChildDied) as caught:
        await made.pool.call("hog_and_die", (held,))
    assert caught.value.peak_bytes is not None
    assert held < caught.value.peak_bytes < held + 100 * MB
    assert made.told(ChildDiedEvent)[0].peak_bytes == caught.value.peak_bytes


async def test_the_peak_of_a_small_child_is_not_its_parents(make_pool: MakePool, tmp_path: Path) -> None:
    ballast = bytearray(b"x") * (300 * MB)  # a new process inherits its parent's peak from before its exec
    made = make_pool(BASIC)
    died = asyncio.create_task(made.pool.call("die"))
    with pytest.raises(ChildDied) as caught:
        await died
    assert caught.value.peak_bytes is None  # nobody knows: it was less than what this process held
    killed = asyncio.create_task(made.pool.call("begin", (str(tmp_path / "mark"),), timeout_ms=None))
    await begun(tmp_path / "mark")
    killed.cancel()
    await asyncio.wait({killed})
    peak = made.told(ChildDiedEvent)[-1].peak_bytes
    assert peak is not None
    assert 5 * MB < peak < 100 * MB  # looked at before it was killed
    del ballast


@pytest.mark.skipif(sys.platform != "linux", reason="others do not limit the address space")
async def test_an_allocation_beyond_the_address_space_is_an_error_of_the_method(make_pool: MakePool) -> None:
    pool = make_pool(USER, address_space_bytes=1_000_000_000).pool
    pid = await pool.call("pid")
    with pytest.raises(MemoryError):
        await pool.call("allocate", (1_000,))
    assert await pool.call("allocate", (10,)) == 10_000_000
    assert await pool.call("pid") == pid


@pytest.mark.skipif(sys.platform != "linux", reason="others do not limit the address space")
@pytest.mark.parametrize(
    ("space", "said"),
    [
        (700_000_000, "address_space: 700 MB are not enough for the object of this pool"),
        (10_000_000, r"address_space: 10 MB is less than the \d+ MB of a child without any object"),
    ],
)
async def test_an_object_that_needs_more_address_space_is_a_clear_failure(
    make_pool: MakePool, space: int, said: str
) -> None:
    spec = ChildSpec("tests.pools.users:heavy", (900,))
    made = make_pool(spec, address_space_bytes=space, restart=RestartPolicy(max_restarts=0))
    with pytest.raises(PoolFailed, match=said):
        await made.pool.wait_ready()
