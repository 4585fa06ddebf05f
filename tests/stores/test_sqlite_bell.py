"""The bell beside the file: where its sockets are, and that nothing which goes wrong with it matters."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import warnings
from pathlib import Path

import pytest

from workfleet.clock import SystemClock
from workfleet.model.jobs import Enqueued, JobRecord
from workfleet.ports.jobs import JobQuery
from workfleet.stores.sqlite import bell
from workfleet.stores.sqlite.bell import Bell, Ring, folder_for
from workfleet.stores.sqlite.lane import Step
from workfleet.stores.sqlite.store import SqliteStore


def listening(path: Path, app: str = "shop") -> tuple[Bell, asyncio.Queue[Ring]]:
    heard: asyncio.Queue[Ring] = asyncio.Queue()
    ear = Bell(path, app)
    ear.listen(heard.put_nowait)
    return ear, heard


async def test_rings_all_others_of_the_app_but_not_itself(path: Path) -> None:
    ears = [listening(path), listening(path), listening(path, "other")]
    ears[0][0].ring(["queue q", "queue r"])
    async with asyncio.timeout(10):
        assert await ears[1][1].get() == Ring("shop", ("queue q", "queue r"))
    assert [heard.qsize() for _, heard in ears] == [0, 0, 0]
    for left, (ear, _) in zip((2, 1), ears, strict=False):
        ear.close()
        assert len(list(folder_for(path).iterdir())) == left
    # The last one leaves nothing behind.
    ears[2][0].close()
    assert not folder_for(path).exists()


async def test_the_last_listener_removes_the_sockets_of_killed_ones_too(path: Path) -> None:
    ear, _ = listening(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
        killed.bind(str(folder_for(path) / "killed.sock"))
    ear.close()
    assert not folder_for(path).exists()


async def test_the_folder_of_a_listener_is_not_removed_under_it(path: Path) -> None:
    first, _ = listening(path)
    second, heard = listening(path)
    first.close()
    mouth = Bell(path, "shop")
    mouth.ring(["queue q"])
    async with asyncio.timeout(10):
        assert await heard.get() == Ring("shop", ("queue q",))
    mouth.close()
    second.close()


async def test_who_comes_while_the_last_one_goes_listens_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear = Bell(path, "shop")
    ours, removals = ear._folder_is_ours, iter([True, True])

    def removed_at_once() -> bool:
        made = ours()
        if next(removals, False):
            folder_for(path).rmdir()
        return made

    monkeypatch.setattr(ear, "_folder_is_ours", removed_at_once)
    ear.listen(lambda _: None)
    assert len(list(folder_for(path).iterdir())) == 1
    ear.close()


async def test_a_close_that_is_cancelled_leaves_no_socket_behind(path: Path) -> None:
    """A worker's stop has a limit; what its store still writes then is written, and rings nobody."""
    store = await SqliteStore.open(path, app="shop", clock=SystemClock(), create=True)
    other, heard = listening(path)
    await store.jobs.find(JobQuery())
    await store.jobs.wait(["q"], 0)
    begun, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(step: Step) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert gate.wait(30)
        step.topics.add("queue q")

    writing = asyncio.create_task(store._lanes.write(slow))
    async with asyncio.timeout(30):
        await begun.wait()
        closing = asyncio.create_task(store.close())
        while not store._lanes._writer._closed:
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert len(list(folder_for(path).iterdir())) == 1, "the other's"
        gate.set()
        await writing
        await asyncio.to_thread(store._lanes._writer._thread.join)
    assert store._lanes._bell._mouth is None
    other.close()
    assert heard.empty()


class NoSockets:
    """A system that has no descriptor left."""

    SOCK_DGRAM = socket.SOCK_DGRAM

    def socket(self, *_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")


async def test_a_bell_that_cannot_ring_is_told_of_once_and_takes_nothing_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear, heard = listening(path)
    store = await SqliteStore.open(path, app="shop", clock=SystemClock(), create=True)

    async def enqueue(job_id: str) -> list[Enqueued]:
        return await store.jobs.enqueue([JobRecord(id=job_id, queue="q", name="work")])

    async with asyncio.timeout(30):
        with monkeypatch.context() as patched, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            patched.setattr(bell, "socket", NoSockets())
            assert await enqueue("a") == [Enqueued("a", created=True)]
            assert await enqueue("b") == [Enqueued("b", created=True)]
        assert ["Too many open files" in str(each.message) for each in told] == [True]
        assert heard.empty()
        await enqueue("c")
        assert await heard.get() == Ring("shop", ("queue q",))
        await store.close()
    ear.close()


async def test_nor_where_warnings_are_errors(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ear, _ = listening(path)
    store = await SqliteStore.open(path, app="shop", clock=SystemClock(), create=True)
    with monkeypatch.context() as patched:
        patched.setattr(bell, "socket", NoSockets())
        async with asyncio.timeout(30):
            added = await store.jobs.enqueue([JobRecord(id="a", queue="q", name="work")])
            assert added == [Enqueued("a", created=True)]
    await store.close()
    ear.close()


async def test_an_ear_that_cannot_be_made_yet_is_made_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ear = Bell(path, "shop")
    heard: asyncio.Queue[Ring] = asyncio.Queue()
    with monkeypatch.context() as patched:
        patched.setattr(bell, "socket", NoSockets())
        ear.listen(heard.put_nowait)
    mouth = Bell(path, "shop")
    mouth.ring(["queue p"])
    ear.listen(heard.put_nowait)
    mouth.ring(["queue q"])
    async with asyncio.timeout(10):
        assert await heard.get() == Ring("shop", ("queue q",))
    mouth.close()
    ear.close()


async def test_a_killed_ones_socket_that_cannot_be_removed_keeps_nobody_from_being_rung(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ears = [listening(path) for _ in range(3)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
        killed.bind(str(folder_for(path) / "killed.sock"))

    def refused(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    mouth = Bell(path, "shop")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refused)
        patched.setattr(bell.os, "listdir", lambda _: ["killed.sock", *(each._own for each, _ in ears)])
        mouth.ring(["queue q"])
    async with asyncio.timeout(10):
        assert [await heard.get() for _, heard in ears] == [Ring("shop", ("queue q",))] * 3
    for each in (mouth, *(ear for ear, _ in ears)):
        each.close()


async def test_too_many_topics_ring_for_everything(path: Path) -> None:
    ear, heard = listening(path)
    mouth = Bell(path, "shop")
    mouth.ring([f"queue {n}" for n in range(1_000)])
    async with asyncio.timeout(10):
        assert await heard.get() == Ring("shop", None)
    mouth.close()
    ear.close()


async def test_nobody_listens(path: Path) -> None:
    mouth = Bell(path, "shop")
    mouth.ring(["queue q"])
    mouth.close()
    assert not folder_for(path).exists()


async def test_a_listener_that_does_not_hear_blocks_nobody(path: Path) -> None:
    ear, heard = listening(path)
    mouth = Bell(path, "shop")
    for _ in range(2_000):
        mouth.ring(["queue q"])
    mouth.close()
    async with asyncio.timeout(10):
        await heard.get()
    ear.close()


async def test_garbage_is_ignored(path: Path) -> None:
    ear, heard = listening(path)
    (name,) = folder_for(path).iterdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for message in (b"", b"\xff", b'{"v":2}', b'["shop",["queue q"]]'):
            sender.sendto(message, str(name))
    async with asyncio.timeout(10):
        assert await heard.get() == Ring("shop", ("queue q",))
    ear.close()


async def test_a_long_path_has_its_sockets_in_the_temporary_folder(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "store.db"
    folder = folder_for(path)
    assert folder == folder_for(path) != folder_for(path.with_name("other.db"))
    assert not folder.is_relative_to(tmp_path)
    assert len(str(folder)) < 80
    store = await SqliteStore.open(path, app="shop", clock=SystemClock(), create=True)
    other = await SqliteStore.open(path, app="shop", clock=SystemClock(), create=False)
    waiting = asyncio.create_task(store.jobs.wait(["q"], 60_000))
    await asyncio.sleep(0)
    await other.jobs.enqueue([JobRecord(id="a", queue="q", name="work")])
    assert await asyncio.wait_for(waiting, 10)
    await store.close()
    await other.close()
    assert not folder.exists()


@pytest.mark.parametrize("mode", [0o777, 0o750])
async def test_a_folder_that_others_can_enter_is_not_used(path: Path, mode: int) -> None:
    folder = folder_for(path)
    folder.mkdir()
    folder.chmod(mode)
    ear, _ = listening(path)
    assert list(folder.iterdir()) == []
    ear.close()


async def test_a_link_in_its_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder_for(path).symlink_to(tmp_path / "elsewhere")
    ear, _ = listening(path)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    ear.close()


async def test_without_unix_sockets_waiting_is_only_a_matter_of_time(
    sqlite: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "_FAMILY", None)
    assert await sqlite.jobs.wait(["q"], 5) is False
    waiting = asyncio.create_task(sqlite.jobs.wait(["q"], 60_000))
    await asyncio.sleep(0)
    await sqlite.jobs.enqueue([JobRecord(id="a", queue="q", name="work")])
    assert await asyncio.wait_for(waiting, 10)
    assert not folder_for(path).exists()
