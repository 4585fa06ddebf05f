"""The relay between real databases and a real store: order, due times, outages of either side, rows that are broken."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.outbox.database import APP, OUTBOX, Database, Postgres, Sqlite
from tests.outbox.postgres_server import PostgresServer
from tests.outbox.rig import ANYWHERE, COUNT, opened, until
from workfleet import SyncOutbox
from workfleet.clock import SystemClock
from workfleet.enqueueing import Enqueueing
from workfleet.errors import StoreUnavailable
from workfleet.events import OutboxMoved, OutboxRecovered, OutboxRowRefused, OutboxRowsStranded, OutboxTrouble
from workfleet.model.jobs import JobState
from workfleet.outbox.schema import CHANNEL
from workfleet.outbox.source import Leftovers
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want


async def test_rows_move_in_their_order_a_batch_at_a_time(database: Database, tmp_path: Path) -> None:
    ids = database.add([COUNT(number) for number in range(25)])
    async with opened(tmp_path, database, batch=10) as rig:
        assert [await rig.relay.once() for _ in range(4)] == [10, 10, 5, 0]
        claimed = await rig.store.jobs.claim(ClaimRequest("w", "t", 30_000, (Want("numbers", 100),)))
        assert [job.id for job in claimed] == ids
        assert [job.payload for job in claimed] == [str(number).encode() for number in range(25)]
        assert [event.count for event in rig.told(OutboxMoved)] == [10, 10, 5]
    assert database.rows() == []


async def test_a_job_arrives_as_it_was_written(database: Database, tmp_path: Path) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    written = [
        COUNT(1, id="mine", priority=3, attempts=7, timeout="9s", backoff="4s", tags=["a"], metadata={"k": "v\u00e9"}),
        COUNT(2, lifo=True, unique="n{data}", at=at),
        ANYWHERE(3, queue="elsewhere"),
        ANYWHERE(4),
    ]
    ids = database.add(written)
    async with opened(tmp_path, database) as rig:
        await rig.relay.once()
        one, two, three, four = [record for record in await rig.store.jobs.get(ids) if record is not None]
    assert (one.id, one.priority, one.tags, one.metadata) == ("mine", 3, ("a",), {"k": "v\u00e9"})
    assert (one.run.attempts, one.run.timeout_ms, one.state) == (7, 9_000, JobState.PRIORITIZED)
    assert (two.lifo, two.unique_key, two.due_ms) == (True, "numbers/count/n2", int(at.timestamp() * 1000))
    assert [job.queue for job in (one, two, three, four)] == ["numbers", "numbers", "elsewhere", "the-default"]
    assert [job.payload for job in (one, two, three, four)] == [b"1", b"2", b"3", b"4"]


async def test_a_unique_key_is_of_the_queue_that_the_job_comes_to(database: Database, tmp_path: Path) -> None:
    """Which queue is the default one, only the relay knows: a client's job of the same key must meet this one."""
    (job_id,) = database.add([ANYWHERE(7, unique="u {data}")])
    async with opened(tmp_path, database) as rig:
        await rig.relay.once()
        (moved,) = await rig.store.jobs.get([job_id])
        enqueueing = Enqueueing("the-default", SystemClock().now_ms)
        (answer,) = await rig.store.jobs.enqueue([enqueueing.record(ANYWHERE(7, unique="u {data}"))])
    assert moved is not None
    assert (moved.queue, moved.unique_key) == ("the-default", "the-default/anywhere/u 7")
    assert (answer.created, answer.id) == (False, job_id)


async def test_a_delay_counts_from_add_not_from_the_move(database: Database, tmp_path: Path) -> None:
    before = SystemClock().now_ms()
    ids = database.add([COUNT(1, delay="5m"), COUNT(2, delay="20ms", expires="10m")])
    after = SystemClock().now_ms()
    await until(lambda: SystemClock().now_ms() >= after + 20)
    async with opened(tmp_path, database) as rig:
        await rig.relay.once()
        later, now = [record for record in await rig.store.jobs.get(ids) if record is not None]
    assert before + 300_000 <= later.due_ms <= after + 300_000
    assert later.state is JobState.DELAYED
    # Due while it still lay in the outbox: ready at once.
    assert now.state is JobState.WAITING
    assert now.expires_ms is not None
    assert before + 600_000 <= now.expires_ms <= after + 600_000


async def test_another_apps_rows_stay(database: Database, tmp_path: Path) -> None:
    other = SyncOutbox("other")
    connection = database.connect()
    (kept,) = other.add_many(connection, [COUNT(1)])
    connection.commit()
    connection.close()
    (moved,) = database.add([COUNT(2)])
    async with opened(tmp_path, database) as rig:
        assert await rig.relay.once() == 1
        assert [job.id for job in await rig.stored()] == [moved]
    assert database.rows() == [(kept,)]


async def test_another_apps_rows_that_nobody_moves_are_told_once(database: Database, tmp_path: Path) -> None:
    with database.connected() as connection:
        SyncOutbox("shpo").add_many(connection, [COUNT(1), COUNT(2)])
        SyncOutbox("lively").add_many(connection, [COUNT(3)])
    database.execute("UPDATE workfleet_outbox SET created_ms = created_ms - 600000 WHERE app = 'shpo'")
    async with opened(tmp_path, database) as rig:
        async with rig.serving():
            await until(lambda: rig.told(OutboxRowsStranded))
            # A row that is refused makes it count once more.
            with database.connected() as connection:
                bad = OUTBOX.add(connection, COUNT(4))
                connection.execute(f"UPDATE workfleet_outbox SET job = '' WHERE id = '{bad}'")
            await until(lambda: rig.relay.leftovers.refused)
        assert rig.relay.leftovers.others == {"shpo": 2}
        (told,) = rig.told(OutboxRowsStranded)
        assert (told.app, told.count) == ("shpo", 2)
        assert "@" not in told.database


async def test_an_outage_of_the_store_is_told_once_and_nothing_is_lost(database: Database, tmp_path: Path) -> None:
    (first,) = database.add([COUNT(1)])
    async with opened(tmp_path, database) as rig:
        rig.jobs.down = True
        async with rig.serving():
            await until(lambda: len(rig.jobs.calls) >= 3)
            assert database.rows() == [(first,)]
            assert rig.relay.trouble == "store of the test: it is down"
            rig.jobs.down = False
            await until(lambda: database.rows() == [])
            await until(lambda: rig.told(OutboxRecovered))
        assert [event.error for event in rig.told(OutboxTrouble)] == ["store of the test: it is down"]
        assert len(rig.told(OutboxRecovered)) == 1
        assert rig.relay.trouble is None
        assert [job.id for job in await rig.stored()] == [first]


async def test_a_relay_that_cannot_reach_the_store_leaves_its_rows_to_others(
    database: Database, tmp_path: Path
) -> None:
    (first,) = database.add([COUNT(1)])
    async with opened(tmp_path, database) as rig, opened(tmp_path, database) as other:
        rig.jobs.down = True
        with pytest.raises(StoreUnavailable):
            await rig.relay.once()
        assert await other.relay.once() == 1
        assert [job.id for job in await other.stored()] == [first]


async def test_a_lost_reply_of_the_store_makes_one_job(database: Database, tmp_path: Path) -> None:
    (first,) = database.add([COUNT(1)])
    async with opened(tmp_path, database) as rig:
        rig.jobs.reply_lost = 1
        async with rig.serving():
            await until(lambda: database.rows() == [])
        assert [job.id for job in await rig.stored()] == [first]
        assert len(rig.jobs.calls) == 2
        assert len(set(rig.jobs.calls)) == 1


async def test_what_was_moved_but_not_deleted_is_not_enqueued_again(database: Database, tmp_path: Path) -> None:
    """The database is away for so long that the job has run, and the store has dropped it."""
    (first,) = database.add([COUNT(1)])
    async with opened(tmp_path, database) as rig:
        rig.source.finish_fails = 1
        async with rig.serving():
            await until(lambda: rig.source.failures)
            await rig.store.jobs.delete([first])
            (second,) = database.add([COUNT(2)])
            await until(lambda: database.rows() == [])
        assert [job.id for job in await rig.stored()] == [second]


async def test_a_row_that_cannot_be_read_stays_and_stands_in_nobodys_way(database: Database, tmp_path: Path) -> None:
    ids = database.add([COUNT(number) for number in range(9)])
    broken = {
        0: "job = '{'",
        1: """job = '{"payload":1,"record":{"id":"x","queue":"numbers","name":"count"}}'""",
        2: """job = replace(job, '"name":"count"', '"name":3')""",
        3: """job = replace(job, '"name":"count"', '"name":"count","priority":-4')""",
        4: """queue = 'a:b'""",
        5: """job = replace(job, '"name":"count"', '"name":"count","unique":{"window_ms":1180591620717411303424}')""",
        6: """job = replace(job, '"name":"count"', '"name":"count","run":{"attempts":-3}')""",
    }
    for number, change in broken.items():
        database.execute(f"UPDATE workfleet_outbox SET {change} WHERE id = '{ids[number]}'")
    async with opened(tmp_path, database) as rig:
        async with rig.serving():
            await until(lambda: rig.relay.leftovers.refused)
            late = database.add([COUNT(8)])
            await until(lambda: len(database.rows()) == 7)
        assert {job.id for job in await rig.stored()} == {*ids[7:], *late}
        told = rig.told(OutboxRowRefused)
        assert [event.id for event in told] == ids[:7]
        assert rig.relay.leftovers == Leftovers(refused=7)
    rows = database.rows("SELECT id, error FROM workfleet_outbox ORDER BY position")
    assert rows == [(event.id, event.reason) for event in told]
    expected = [
        "DecodeError",
        "ValueError: the column id",
        "ValidationError",
        "ValueError: its priority",
        "ValueError: queue",
        "ValueError: one of its numbers",
        "ValueError: one of its numbers",
    ]
    for (_, reason), start in zip(rows, expected, strict=True):
        assert reason.startswith(start), reason
    # Repaired and unmarked, it moves.
    database.execute(f"UPDATE workfleet_outbox SET queue = 'a', error = NULL WHERE id = '{ids[4]}'")
    async with opened(tmp_path, database) as rig:
        assert await rig.relay.once() == 1


async def test_text_that_is_no_utf_8_does_not_stop_the_others(sqlite: Sqlite, tmp_path: Path) -> None:
    sqlite.create()
    bad, good = sqlite.add([COUNT(1), COUNT(2)])
    sqlite.execute(f"UPDATE workfleet_outbox SET job = CAST(x'ff00fe' AS text) WHERE id = '{bad}'")
    async with opened(tmp_path, sqlite) as rig:
        await rig.relay.once()
        assert [job.id for job in await rig.stored()] == [good]
    assert sqlite.rows("SELECT id FROM workfleet_outbox WHERE error IS NOT NULL") == [(bad,)]


async def test_fields_of_a_newer_version_are_passed_over_and_newer_rows_are_left_to_newer_relays(
    database: Database, tmp_path: Path
) -> None:
    wider, newer = database.add([COUNT(1), COUNT(2)])
    database.execute(
        f"""UPDATE workfleet_outbox SET job = replace(job, '"record":{{', '"more":[1],"record":{{"colour":"red",') """
        f"WHERE id = '{wider}'"
    )
    database.execute(f"UPDATE workfleet_outbox SET v = 2 WHERE id = '{newer}'")
    async with opened(tmp_path, database) as rig:
        async with rig.serving():
            await until(lambda: rig.relay.leftovers.newer == 1)
        assert [job.id for job in await rig.stored()] == [wider]
    assert database.rows("SELECT id, error FROM workfleet_outbox") == [(newer, None)]


async def test_a_table_that_is_not_there_yet_is_waited_for(tmp_path: Path, sqlite: Sqlite, postgres: Postgres) -> None:
    for folder, database in (("a", sqlite), ("b", postgres)):
        (tmp_path / folder).mkdir()
        async with opened(tmp_path / folder, database) as rig:
            async with rig.serving():
                await until(lambda rig=rig: rig.relay.trouble)  # type: ignore[misc]
                if database is sqlite:
                    assert not sqlite.path.exists(), "the relay makes no file"
                database.create()
                database.add([COUNT(1)])
                await until(lambda rig=rig: rig.told(OutboxRecovered))  # type: ignore[misc]
            assert rig.relay.total == 1
            (told,) = rig.told(OutboxTrouble)
            assert database is sqlite or "workfleet.outbox.ddl" in told.error
            assert len(rig.told(OutboxRecovered)) == 1


@pytest.mark.full
async def test_a_server_that_is_restarted_is_told_once(
    server: PostgresServer, postgres: Postgres, tmp_path: Path
) -> None:
    postgres.create()
    async with opened(tmp_path, postgres, poll_ms=60_000) as rig, rig.serving():
        postgres.add([COUNT(1)])
        await until(lambda: rig.relay.total == 1)
        for number in (2, 3):
            await asyncio.to_thread(server.stop, signal.SIGQUIT)
            await until(lambda number=number: len(rig.told(OutboxTrouble)) == number - 1)  # type: ignore[misc]
            looks = rig.source.looks
            await until(lambda looks=looks: rig.source.looks >= looks + 3, 90)  # type: ignore[misc]
            await asyncio.to_thread(server.start)
            postgres.add([COUNT(number)])
            await until(lambda number=number: rig.relay.total == number)  # type: ignore[misc]
            # A row is counted before it is finished: only then the outage is over, and another one is told of.
            await until(lambda number=number: len(rig.told(OutboxRecovered)) == number - 1)  # type: ignore[misc]
        assert len(rig.told(OutboxTrouble)) == 2
        assert len(rig.told(OutboxRecovered)) == 2
        assert "postgres@" not in rig.told(OutboxTrouble)[0].error


async def test_a_notification_wakes_the_relay_when_the_transaction_commits(postgres: Postgres, tmp_path: Path) -> None:
    postgres.create()
    async with opened(tmp_path, postgres, poll_ms=600_000) as rig, rig.serving():
        postgres.add([COUNT(0)])
        await until(lambda: rig.relay.total == 1)
        for number in range(1, 4):
            with postgres.connected() as connection:
                OUTBOX.add(connection, COUNT(number))
                # Woken by another connection, it looks and sees nothing of a transaction that is open.
                looks = rig.source.looks
                postgres.execute(f"SELECT pg_notify('{CHANNEL}', '{APP}')")
                await until(lambda looks=looks: rig.source.looks > looks and rig.relay.idle)  # type: ignore[misc]
                assert rig.relay.total == number
            await until(lambda number=number: rig.relay.total == number + 1, 5)  # type: ignore[misc]


async def test_the_application_can_write_while_the_store_is_slow(sqlite: Sqlite, tmp_path: Path) -> None:
    """No transaction is open on the application's file while the store is asked."""
    sqlite.create()
    sqlite.add([COUNT(1)])
    async with opened(tmp_path, sqlite) as rig:
        enqueue = rig.jobs.enqueue
        wrote = []

        async def slow(*args: object, **kwargs: object) -> object:
            wrote.append(await asyncio.to_thread(sqlite.add, [COUNT(2)]))
            return await enqueue(*args, **kwargs)  # type: ignore[arg-type]

        rig.jobs.enqueue = slow  # type: ignore[method-assign,assignment]
        assert await rig.relay.once() == 1
        assert len(wrote) == 1
        assert await rig.relay.once() == 1


async def test_the_journal_mode_is_left_alone(sqlite: Sqlite, tmp_path: Path) -> None:
    for mode in ("delete", "wal"):
        sqlite.create()
        assert sqlite.rows(f"PRAGMA journal_mode = {mode}") == [(mode,)]
        sqlite.add([COUNT(1)])
        async with opened(tmp_path, sqlite) as rig:
            assert await rig.relay.once() == 1
            assert sqlite.rows("PRAGMA journal_mode") == [(mode,)]


async def test_a_cancelled_relay_holds_nothing(database: Database, tmp_path: Path) -> None:
    database.add([COUNT(1)])
    async with opened(tmp_path, database) as rig:
        asked = asyncio.Event()

        async def never(*_args: object, **_kwargs: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        rig.jobs.enqueue = never  # type: ignore[method-assign,assignment]
        async with rig.serving():
            await asked.wait()
        async with opened(tmp_path, database) as other:
            assert await other.relay.once() == 1
            assert len(await other.store.jobs.find(JobQuery())) == 1
