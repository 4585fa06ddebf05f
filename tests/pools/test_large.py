"""Large arguments and results arrive as what was sent, are copied as they were, and leave nothing behind."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.pools.conftest import MakePool
from tests.pools.large_workers import Large, Picture, Slab
from tests.pools.support import begun, kill, wait_until
from tests.pools.test_calls import Ear
from workfleet.clock import SystemClock
from workfleet.errors import ChildDied
from workfleet.events import ChildStarted, Event
from workfleet.pools import parcel, segment
from workfleet.pools.isolation import spawner
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.pool import ProcessPool
from workfleet.pools.process import spawn
from workfleet.pools.segment import Segment
from workfleet.testing.pools import PoolDouble

LARGE = ChildSpec("tests.pools.large_workers:Large")
MB = 1 << 20
DATA = os.urandom(MB) * 3
linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it looks at descriptors in /proc")


def same(sent: Any, arrived: Any) -> bool:
    """Equal, and of the same type all the way down."""
    if type(sent) is not type(arrived):
        return False
    if isinstance(sent, dict):
        return list(sent) == list(arrived) and all(same(sent[key], arrived[key]) for key in sent)
    if isinstance(sent, list | tuple):
        return len(sent) == len(arrived) and all(map(same, sent, arrived))
    return bool(sent == arrived)


VALUES = [
    pytest.param(DATA, id="bytes"),
    pytest.param(bytearray(DATA), id="bytearray"),
    pytest.param("\u20ac" * MB, id="str"),
    pytest.param(2 ** (8 * MB), id="int"),
    pytest.param([DATA, {"a": (bytearray(DATA), 1, None)}, DATA[:10]], id="nested"),
    pytest.param(Picture("sea", DATA), id="in an object"),
    pytest.param([Picture("sea", DATA), DATA], id="in an object and beside it"),
    pytest.param({"many": list(range(100_000)), "data": DATA}, id="behind much else"),
    pytest.param(Slab(bytearray(DATA)), id="buffer"),
    pytest.param(Slab(DATA), id="readonly buffer"),
    pytest.param([Slab(DATA), DATA, Slab(bytearray(DATA)), Picture("x", DATA)], id="of every kind"),
    pytest.param(b"s" * (parcel.LARGE - 1), id="just small"),
    pytest.param(b"l" * parcel.LARGE, id="just large"),
    pytest.param([b"", bytearray(), "", Slab(b"few")], id="small ones"),
]


@pytest.mark.parametrize("isolation", ["process", "socket"])
async def test_values_arrive_as_they_were_sent_both_ways(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    pool = make_pool(LARGE).pool
    if isolation == "socket":
        await without_memory(pool, monkeypatch)
    for value in [each.values[0] for each in VALUES]:
        (arrived,) = [await pool.call("echo", (value,))]
        assert same(value, arrived)
        assert same({"value": value}, await pool.call("echo", (), {"value": {"value": value}}))
    assert pool.stats().restarts == 0


async def without_memory(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written into shared memory, on neither side."""
    await pool.call("no_file_above", (0,))
    refused = Counter[str]()

    def full(fd: int, data: object, at: int) -> int:
        refused["here"] += 1
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(segment.os, "pwrite", full)
    assert await pool.call("echo", (DATA,)) == DATA
    assert refused["here"] == 1
    assert await pool.call("shared_bytes") == 0


@pytest.mark.parametrize("value", VALUES)
def test_a_parcel_is_the_value_again(value: Any) -> None:
    packed = parcel.pack(value)
    if isinstance(packed, parcel.Parcel):
        assert len(packed.pickled) < parcel.LARGE
        assert same(value, parcel.unpack(packed._replace(parts=[_writable(part) for part in packed.parts])))


def _writable(part: Any) -> Any:
    return part if isinstance(part, bytes | bytearray) else bytearray(part)


def test_bytes_are_not_copied_into_the_pickle() -> None:
    for value in (DATA, [1, {"a": DATA}], (DATA, DATA)):
        packed = parcel.pack(value)
        assert isinstance(packed, parcel.Parcel)
        assert [part is DATA for part in packed.parts] == [True]
        assert len(packed.pickled) < 100


async def test_arrays_arrive_as_arrays_and_as_writable_as_they_were(make_pool: MakePool) -> None:
    numpy = pytest.importorskip("numpy")
    pool = make_pool(LARGE).pool
    array = numpy.arange(MB, dtype="float64").reshape(1024, 1024)
    doubled = await pool.call("scale_in_place", (array.copy(),))
    assert (doubled == array * 2).all()
    assert doubled.dtype == array.dtype
    doubled[0, 0] = 7  # a result can be written as well
    assert doubled[0, 0] == 7
    constant = array.copy()
    constant.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        await pool.call("scale_in_place", (constant,))
    for other in (array.T, array[::2, ::3], array.astype("complex64"), numpy.asfortranarray(array), constant):
        back = await pool.call("echo", ({"in": [other]},))
        (found,) = back["in"]
        assert (found == other).all()
        assert found.dtype == other.dtype
        assert found.flags.writeable == other.flags.writeable


async def test_one_object_stays_one(make_pool: MakePool) -> None:
    pool = make_pool(LARGE).pool
    both = bytearray(DATA)
    assert await pool.call("same", (both, both)) is True
    assert await pool.call("same", (both, bytearray(both))) is False


async def test_what_is_kept_in_the_child_does_not_change(make_pool: MakePool) -> None:
    """Later parcels go through the same memory."""
    pool = make_pool(LARGE).pool
    sent = [bytes([n]) * MB if n % 2 else Slab(bytearray([n]) * MB) for n in range(8)]
    for each in sent:
        await pool.call("keep", (each,))
    assert same(sent, await pool.call("give_kept"))


async def test_arguments_are_as_they_were_when_the_call_was_made(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(LARGE).pool
    await pool.wait_ready()
    given, waiting = bytearray(b"a" * MB), bytearray(b"a" * MB)
    calls = [asyncio.ensure_future(pool.call("first_byte", (each,))) for each in (given, waiting)]
    await asyncio.sleep(0)
    given[0] = waiting[0] = ord("b")
    assert await asyncio.gather(*calls) == [ord("a"), ord("a")]


async def test_a_call_that_its_child_never_began_is_made_again_as_it_was(make_pool: MakePool) -> None:
    made = make_pool(LARGE)
    pid = await made.pool.call("pid")
    os.kill(pid, signal.SIGSTOP)
    data = bytearray(b"a" * 64 * MB)
    call = asyncio.ensure_future(made.pool.call("first_byte", (data,)))
    await asyncio.sleep(0)
    data[0] = ord("b")
    kill(pid)
    assert await call == ord("a")
    assert await made.pool.call("pid") != pid


async def test_streams_of_large_items(make_pool: MakePool) -> None:
    pool = make_pool(LARGE).pool
    for method in ("items", "aitems"):
        found = [(item[:1], item[-1:], len(item)) async for item in pool.stream(method, (3 * MB, 30))]
        assert found == [(bytes([n]), bytes([n]), 3 * MB) for n in range(30)]


async def test_what_a_method_says_may_be_large(make_pool: MakePool) -> None:
    pool, ear = make_pool(LARGE).pool, Ear()
    await pool.call("say", (MB,), listener=ear)
    assert [(kind, type(said), len(said)) for kind, said in ear.heard] == [
        ("log", bytes, MB),
        ("progress", bytearray, MB),
    ]
    with pytest.raises(ValueError, match="eee") as raised:
        await pool.call("raise_large", (300_000,))
    assert raised.value.args == (b"e" * 300_000,)


async def test_many_large_calls_at_once(make_pool: MakePool) -> None:
    pool = make_pool(LARGE, size=2).pool
    sent = [bytes([n]) * (300_000 + n * 50_000) for n in range(40)]
    assert await asyncio.gather(*(pool.call("echo", (each,)) for each in sent)) == sent


@pytest.fixture(params=["thread", "inline", "double"])
async def pool_here(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """What serves in this process."""
    if request.param == "double":
        yield PoolDouble("double", _large)
        return
    options = PoolOptions(name="here", size=1, isolation=request.param, stuck_after_ms=None)
    published: list[Event] = []
    started = spawner(request.param, None, spawn)
    pool = ProcessPool(LARGE, options, clock=SystemClock(), publish=published.append, spawn=started)
    yield pool
    await pool.stop(5_000)


async def _large() -> Large:
    return Large()


async def test_children_inside_this_process_get_copies_too(pool_here: Any) -> None:
    mine = bytearray(b"a" * MB), Slab(bytearray(b"a" * MB))
    theirs = await pool_here.call("echo", (mine,))
    assert same(mine, theirs)
    theirs[0][0] = theirs[1].view[0] = ord("b")
    await pool_here.call("keep", (mine,))
    mine[0][0] = mine[1].view[0] = ord("c")
    (kept,) = await pool_here.call("give_kept")
    assert (kept[0][0], kept[1].view[0]) == (ord("a"), ord("a"))


def shared() -> dict[str, int]:
    """The memory through which parcels go that this process has open, and the size of each kind."""
    sizes = Counter[str]()
    for fd in os.listdir("/proc/self/fd"):
        try:
            kind = os.readlink(f"/proc/self/fd/{fd}").partition("workfleet-")[2].partition(" ")[0]
            if kind in ("arguments", "results"):
                sizes[kind] += os.stat(f"/proc/self/fd/{fd}").st_size
        except FileNotFoundError:  # the one that lists them
            pass
    return dict(sizes)


def open_files() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}").partition(":")[0])
        except FileNotFoundError:
            pass
    return sorted(found)


@linux
async def test_memory_is_given_back_after_what_was_very_large(make_pool: MakePool) -> None:
    pool = make_pool(LARGE).pool
    assert await pool.call("echo", (b"x" * 64 * MB,)) == b"x" * 64 * MB
    await wait_until(lambda: shared() == {"arguments": 16 * MB, "results": 16 * MB})
    stream = pool.stream("items", (8 * MB, 20))
    assert len([item async for item in stream]) == 20
    await wait_until(lambda: shared() == {"arguments": 16 * MB, "results": 16 * MB})


@linux
async def test_a_pool_that_has_stopped_leaves_no_descriptor_and_no_memory(make_pool: MakePool) -> None:
    before = open_files()
    for _ in range(3):
        pool = make_pool(LARGE, size=2).pool
        await asyncio.gather(*(pool.call("echo", (b"x" * 8 * MB,)) for _ in range(4)))
        await pool.stop(5_000)
    assert shared() == {}
    assert open_files() == before


@linux
async def test_programs_that_a_child_starts_get_none_of_it(make_pool: MakePool) -> None:
    pool = make_pool(ChildSpec("tests.pools.large_workers:Large")).pool
    pid = await pool.call("pid")
    flags = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        name = os.readlink(f"/proc/{pid}/fd/{fd}")
        info = Path(f"/proc/{pid}/fdinfo/{fd}").read_text().split()
        flags[fd] = name, bool(int(info[3], 8) & os.O_CLOEXEC)
    inherited = [name for fd, (name, closes) in flags.items() if int(fd) > 2 and not closes]
    assert inherited == []


@linux
async def test_killed_while_64_mb_are_on_their_way_to_it(make_pool: MakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory, and half in the socket where there is none."""
    made = make_pool(LARGE)
    for way in ("memory", "socket"):
        if way == "socket":
            await without_memory(made.pool, monkeypatch)
        pid = await made.pool.call("pid")
        before = open_files()
        os.kill(pid, signal.SIGSTOP)
        call = asyncio.ensure_future(made.pool.call("first_byte", (b"a" * 64 * MB,)))
        await asyncio.sleep(0.05)
        kill(pid)
        assert await call == ord("a")  # it was never begun
        assert await made.pool.call("pid") != pid
        assert (open_files(), shared().keys()) == (before, {"arguments", "results"})
        await made.pool.call("echo", (1,))


@linux
@pytest.mark.full
async def test_killed_while_it_sends_64_mb(make_pool: MakePool, tmp_path: Path) -> None:
    """At many moments, so that some are in the middle. Whole or not at all."""
    made = make_pool(LARGE)
    await made.pool.wait_ready()
    before, ends = open_files(), Counter[str]()
    for number in range(12):
        mark = tmp_path / str(number)
        call = asyncio.ensure_future(made.pool.call("make_after", (str(mark), 64 * MB)))
        pid = await begun(mark)
        await asyncio.sleep(number * 0.004)
        kill(pid)
        try:
            assert len(await call) == 64 * MB
            ends["whole"] += 1
        except ChildDied:
            ends["died"] += 1
        await wait_until(lambda starts=number + 2: len(made.told(ChildStarted)) == starts)  # type: ignore[misc]
        assert await made.pool.call("echo", (number,)) == number
    assert ends["died"] >= 1
    assert open_files() == before
    assert sum(shared().values()) == 0


# The memory itself.


def test_parts_lie_beside_each_other_until_they_are_released() -> None:
    memory = Segment(segment.create("workfleet-test"))
    first = memory.put(1, [b"a" * 100, bytearray(b"b" * 50)])
    second = memory.put(2, [b"c" * 30])
    assert (first, second) == (0, 150)
    assert memory.read(0, 100) == b"a" * 100
    assert memory.read_changeable(100, 50) == bytearray(b"b" * 50)
    assert memory.read(150, 30) == b"c" * 30
    memory.release(1)
    assert memory.put(3, [b"d" * 10]) == 180
    memory.release()  # the oldest: 2
    memory.release(3)
    assert memory.put(4, [b"e"]) == 0
    memory.close()


def test_it_begins_anew_where_the_oldest_are_gone_and_says_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "_MOST", 1_000)
    memory = Segment(segment.create("workfleet-test"))
    assert [memory.put(key, [bytes(400)]) for key in (1, 2)] == [0, 400]
    assert memory.put(3, [bytes(400)]) is None
    memory.release(1)
    assert memory.put(3, [bytes(300)]) == 0
    assert memory.put(4, [bytes(101)]) is None  # it would lie over the second
    assert memory.put(4, [bytes(100)]) == 300
    memory.release(2)
    assert memory.put(5, [bytes(401)]) == 400
    assert memory.put(6, [bytes(1_001)]) is None
    memory.close()


def test_what_cannot_be_written_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, written = Segment(segment.create("workfleet-test")), os.pwrite

    def nearly_full(fd: int, data: memoryview, at: int) -> int:
        if at + len(data) > 1_000:
            if at >= 1_000:
                raise OSError(errno.ENOSPC, "no space left on device")
            return written(fd, data[: 1_000 - at], at)
        return written(fd, data, at)

    monkeypatch.setattr(segment.os, "pwrite", nearly_full)
    assert memory.put(1, [bytes(600), bytes(600)]) is None
    assert memory.put(2, [b"x" * 600]) == 0
    assert memory.read(0, 600) == b"x" * 600
    memory.close()
