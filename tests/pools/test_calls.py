"""What a call gives: results, exceptions, refusals, and what a method can know and say."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import begun, runs, wait_until
from tests.pools.workers import Basic, Formatting, NotFunny, TwoArguments
from workfleet.errors import Cancel, ConfigError, Fail, PayloadRejected, PoolBusy, RemoteError, Retry, Snooze
from workfleet.pools.options import ChildSpec

BASIC = ChildSpec.of(Basic)
E = TypeVar("E", bound=Exception)


async def raised(kind: type[E], call: Coroutine[Any, Any, Any]) -> E:
    with pytest.raises(kind) as caught:
        await call
    return caught.value


async def test_sync_async_and_keyword_arguments(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    assert await pool.call("add", (1,), {"b": 4}) == 5
    assert await pool.call("aadd", (1, 2)) == 3
    assert await pool.call("add", (1,)) == 2


async def test_a_sync_method_may_run_a_loop_of_its_own_after_async_ones(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    assert await pool.call("aadd", (1, 2)) == 3
    assert await pool.call("nested_loop") == 7
    assert await pool.call("aadd", (3, 4)) == 7


async def test_a_child_runs_one_call_at_a_time_and_the_least_busy_is_chosen(
    make_pool: MakePool, tmp_path: Path
) -> None:
    pool = make_pool(BASIC, size=2).pool
    await pool.wait_ready()
    first = asyncio.create_task(pool.call("begin", (str(tmp_path / "a"), 60)))
    busy = await begun(tmp_path / "a")
    others = {await pool.call("pid") for _ in range(20)}
    assert others == set(pool.stats().pids) - {busy}
    second = asyncio.create_task(pool.call("begin", (str(tmp_path / "b"), 60)))
    await begun(tmp_path / "b")
    third = asyncio.create_task(pool.call("pid"))
    await asyncio.sleep(0)
    stats = pool.stats()
    assert (stats.busy, stats.queued, stats.ready, stats.calls) == (2, 1, 2, 20)
    assert sorted(child.method or "" for child in stats.children) == ["begin", "begin"]
    for task in (first, second, third):
        task.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)


async def test_waiting_calls_start_in_their_order_as_soon_as_a_child_is_free(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    order: list[int] = []

    async def one(number: int) -> None:
        await pool.call("echo", (number,))
        order.append(number)

    await asyncio.gather(*(one(number) for number in range(300)))
    assert order == list(range(300))
    assert pool.stats().calls == 300
    assert pool.stats().queued == 0


async def test_an_exception_arrives_as_itself_with_the_childs_traceback(make_pool: MakePool) -> None:
    made = make_pool(BASIC)
    with pytest.raises(NotFunny) as caught:
        await made.pool.call("raise_funny")
    assert str(caught.value) == "ha"
    (note,) = caught.value.__notes__
    first, second, frame, line, last = note.splitlines()
    assert (first, second) == ("in the child process:", "Traceback (most recent call last):")
    assert frame.endswith("in raise_funny")
    assert (line.strip(), last) == ('raise NotFunny("ha")', "tests.pools.workers.NotFunny: ha")
    assert made.pool.stats().failures == 1


@pytest.mark.parametrize(
    ("method", "type_name", "message"),
    [
        ("raise_holding", "tests.pools.workers.Holding", "see my lock"),
        ("raise_local", "tests.pools.workers.Basic.raise_local.<locals>.Local", "nobody knows me"),
        ("sys_exit", "SystemExit", "3"),
        ("raise_stop", "StopIteration", "3"),
    ],
)
async def test_an_exception_that_cannot_travel_is_told(
    make_pool: MakePool, method: str, type_name: str, message: str
) -> None:
    pool = make_pool(BASIC).pool
    with pytest.raises(RemoteError) as caught:
        await pool.call(method)
    assert (caught.value.type_name, caught.value.message) == (type_name, message)
    assert f"in {method}" in caught.value.traceback
    assert await pool.call("echo", ("still",)) == "still"
    assert pool.stats().restarts == 0


async def test_what_a_handler_decides_crosses_unchanged(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    retry = await raised(Retry, pool.call("decide", ("Retry", ("later",), {"after": "5s"})))
    assert (retry.reason, retry.after, str(retry)) == ("later", "5s", "later")
    snooze = await raised(Snooze, pool.call("decide", ("Snooze", ("1h", "asleep"), {})))
    assert (snooze.reason, snooze.after, str(snooze)) == ("asleep", "1h", "asleep")
    assert (await raised(Fail, pool.call("decide", ("Fail", ("never",), {})))).reason == "never"
    assert (await raised(Cancel, pool.call("decide", ("Cancel", (), {})))).reason == ""


async def test_an_exception_is_not_made_by_its_constructor_again(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    two = await raised(TwoArguments, pool.call("raise_two"))
    assert (two.code, two.args) == (7, ("7: because",))
    assert str(await raised(Formatting, pool.call("raise_formatting"))) == "code 7"


async def test_factory_arguments_that_cannot_be_sent(make_pool: MakePool) -> None:
    with pytest.raises(ConfigError, match="its factory's arguments cannot be sent to a child"):
        make_pool(ChildSpec("tests.pools.workers:hooks", (lambda: 1,)))


async def test_unknown_method(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    for name in ("nothing", "__init__", "_private"):
        with pytest.raises(AttributeError, match=f"Basic has no method '{name}'"):
            await pool.call(name)


async def test_an_argument_that_cannot_be_sent_is_refused_before_sending(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    with pytest.raises(PayloadRejected, match=r"arguments of test.add: \$.b: function cannot be sent") as caught:
        await pool.call("add", (1,), {"b": lambda: 1})
    assert caught.value.path == "$.b"
    with pytest.raises(PayloadRejected) as caught:
        await pool.call("add", (1, lambda: 1))
    assert caught.value.path == "$[1]"
    assert pool.stats().calls == 0


async def test_a_result_that_cannot_be_sent_fails_the_call_only(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    pid = await pool.call("pid")
    with pytest.raises(PayloadRejected, match=r"result of test\.unsendable: .*lock cannot be sent to the caller"):
        await pool.call("unsendable")
    assert await pool.call("pid") == pid


async def test_large_values_both_ways(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    data = os.urandom(1 << 20) * 20
    assert await pool.call("size", (data,)) == ("bytes", len(data))
    assert await pool.call("echo", (data,)) == data
    text = "\x00\ud800 \U0001f600"
    assert await pool.call("echo", (text,)) == text


async def test_the_queue_has_a_limit(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC, queue_limit=2).pool
    running = asyncio.create_task(pool.call("begin", (str(tmp_path / "a"), 60)))
    await begun(tmp_path / "a")
    waiting = [asyncio.create_task(pool.call("echo", (n,))) for n in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(PoolBusy) as caught:
        await pool.call("echo", (3,))
    assert caught.value.limit == 2
    assert caught.value.retry_after_ms >= 100
    running.cancel()
    assert await asyncio.gather(*waiting) == [0, 1]


class Ear:
    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def log(self, entry: Any) -> None:
        self.heard.append(("log", entry))

    def progress(self, value: Any) -> None:
        self.heard.append(("progress", value))


async def test_context_logs_and_progress_cross_the_boundary(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    ears = [Ear(), Ear()]
    facts = await asyncio.gather(
        *(pool.call("say", (2 + n,), context={"job": n}, listener=ear) for n, ear in enumerate(ears))
    )
    assert facts == [{"job": 0}, {"job": 1}]
    assert ears[0].heard == [("log", {"line": 0}), ("log", {"line": 1}), ("progress", 2)]
    assert [kind for kind, _ in ears[1].heard] == ["log", "log", "log", "progress"]


async def test_a_hundred_thousand_printed_lines(make_pool: MakePool) -> None:
    """As many as the child may are handed on; the others are counted."""
    made = make_pool(BASIC)
    await made.pool.call("chatter", (100_000,))

    def told() -> int:
        return sum(int(line.split()[1].replace(",", "")) if line[0] == "…" else 1 for _, line in made.lines)

    await wait_until(lambda: told() == 100_000, 30)
    assert made.lines[0] == ("stdout", "line 0")
    assert len(made.lines) < 100_000
    assert await made.pool.call("echo", (1,)) == 1


async def test_signals_are_the_parents_business(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    pid = await pool.call("pid")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.killpg(pid, number)
    assert await pool.call("pid") == pid
    assert os.getpgid(pid) == pid
    # A program that user code starts can still be terminated.
    assert await pool.call("terminated_by") == -signal.SIGTERM


async def test_programs_started_by_a_child_get_the_parents_import_path(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    pool = make_pool(BASIC).pool
    assert await pool.call("environment", ("PYTHONPATH",)) == "/nowhere"


async def test_the_copy_of_a_child_that_forks_answers_nothing(make_pool: MakePool) -> None:
    pool = make_pool(BASIC).pool
    pid = await pool.call("pid")
    copy = await pool.call("fork")
    assert copy > 0
    await wait_until(lambda: not runs(copy))
    assert await pool.call("pid") == pid
    assert pool.stats().calls == 3


async def test_throughput_for_who_wants_to_know(make_pool: MakePool) -> None:
    """Printed, not judged (`pytest -s`): the machine decides. `bench` compares."""
    pool = make_pool(ChildSpec("tests.pools.light:Light"), size=2).pool
    await pool.wait_ready()
    started = time.monotonic()
    for first in range(0, 5_000, 500):
        numbers = range(first, first + 500)
        assert await asyncio.gather(*(pool.call("echo", (number,)) for number in numbers)) == list(numbers)
    print(f"\n{5_000 / (time.monotonic() - started):,.0f} calls/s over two children")
