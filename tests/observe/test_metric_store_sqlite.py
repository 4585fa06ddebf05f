"""What only the metric store in a file has to do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.observe.rows import ask, row
from workfleet.errors import StoreUnavailable
from workfleet.observe.metrics.model import CounterPoint
from workfleet.observe.metrics.sqlite import SqliteMetricStore, metrics_path


def test_the_file_is_beside_the_stores() -> None:
    assert metrics_path(Path("/x/.workfleet/shop.db")) == Path("/x/.workfleet/shop.db.metrics.db")


async def test_a_file_outlives_its_store_and_apps_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "m.db"
    for app in ("shop", "blog"):
        store = SqliteMetricStore(path, app)
        await store.write([row(1_000, 1), row(5_000, 1)])
        await store.close()
    shop = SqliteMetricStore(path, "shop", create=False)
    assert await shop.prune(2_000) == 1
    blog = SqliteMetricStore(path, "blog", create=False)
    found = {}
    for name, store in (("shop", shop), ("blog", blog)):
        (series,) = await store.query(ask())
        found[name] = series.points[0]
        await store.close()
    assert {name: point.increase for name, point in found.items() if isinstance(point, CounterPoint)} == {
        "shop": 1,
        "blog": 2,
    }


async def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    program = """
import asyncio, sys
from pathlib import Path
from workfleet.observe.metrics.model import MetricRow
from workfleet.observe.metrics.sqlite import SqliteMetricStore
async def main():
    sys.stdin.read()
    store = SqliteMetricStore(Path(sys.argv[1]), "shop")
    for at_ms in range(50):
        rows = [MetricRow(name="x", kind="counter", labels=(("n", str(n)),), at_ms=at_ms, value=1) for n in range(4)]
        await store.write(rows)
        await store.prune(-1)
    await store.close()
asyncio.run(main())
"""
    command = (sys.executable, "-c", program, str(path))
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(5)]
    for child in children:  # all at once: the file does not exist yet
        assert child.stdin is not None
        child.stdin.close()
        child.stdin = None
    said = await asyncio.gather(*(asyncio.to_thread(child.communicate) for child in children))
    assert [(child.returncode, error) for child, (_, error) in zip(children, said, strict=True)] == [(0, "")] * 5
    store = SqliteMetricStore(path, "shop", create=False)
    (series,) = await store.query(ask(to_ms=50, by=()))
    await store.close()
    assert series.points == (CounterPoint(at_ms=0, increase=1_000, rate=20_000),)


async def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    store = SqliteMetricStore(tmp_path / "m.db", "shop")
    await store.write([row(1_000, 1)])
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    await store.close()
    assert modes == {"m.db": 0o600, "m.db-shm": 0o600, "m.db-wal": 0o600}


async def test_a_deleted_file_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = SqliteMetricStore(path, "shop")
    await store.write([row(1_000, 1)])
    path.unlink()
    await store.write([row(2_000, 2)])
    assert path.exists()
    await store.close()
    other = SqliteMetricStore(path, "shop", create=False)
    (series,) = await other.query(ask())
    await other.close()
    assert series.points == (CounterPoint(at_ms=0, increase=2, rate=0.02),)


def newer(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("pragma user_version = 7")
    connection.close()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "unable to open database file"),
        (lambda path: path.write_bytes(b"no database" * 1_000), "not a database"),
        (newer, r"written by a newer version \(format 7, this one knows 1\)\. Update workfleet"),
    ],
    ids=["missing", "garbage", "newer"],
)
async def test_a_file_that_cannot_be_used(tmp_path: Path, prepare: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "m.db"
    prepare(path)
    store = SqliteMetricStore(path, "shop", create=False)
    with pytest.raises(StoreUnavailable, match=message) as caught:
        await store.series()
    await store.close()
    assert caught.value.store == str(path)


async def test_a_failed_write_writes_nothing(tmp_path: Path) -> None:
    store = SqliteMetricStore(tmp_path / "m.db", "shop")
    assert await store.series() == []
    blocker = apsw.Connection(str(tmp_path / "m.db"))
    blocker.execute(
        "create trigger no before insert on wf_metric_point when new.value = 2 begin select raise(abort, 'no'); end"
    )
    with pytest.raises(StoreUnavailable, match="no"):
        await store.write([row(1_000, 1), row(1_000, 2)])
    assert await store.query(ask()) == []
    await store.write([row(1_000, 1)])
    assert len(await store.query(ask())) == 1
    blocker.close()
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.write([row(1_000, 1)])
