"""A child ends itself, or spoils what ties it to its parent."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.pools.kills.ward import OpenWard
from tests.pools.support import begun, kill, wait_until
from workfleet.errors import CallTimeout, ChildDied, RemoteError
from workfleet.events import ChildDied as ChildDiedEvent


@pytest.mark.parametrize("code", [0, *(pytest.param(each, marks=pytest.mark.full) for each in (1, 78, 255))])
async def test_it_exits_in_the_middle_of_a_call(open_ward: OpenWard, code: int) -> None:
    """Exit code 0 too: the call has no answer, so it has failed."""
    ward = await open_ward()
    error = await ward.fails(ward.pool.call("leave", (code,)), ChildDied)
    assert (error.method, error.how) == ("leave", f"exit code {code}")
    await ward.whole()
    assert error.pid not in ward.pids
    assert ward.pool.stats().failures == 1


async def test_sys_exit_is_the_calls_error_and_not_the_childs_end(open_ward: OpenWard) -> None:
    ward = await open_ward()
    before = ward.pids
    for code in (0, 3, "goodbye"):
        error = await ward.fails(ward.pool.call("sys_exit", (code,)), RemoteError)
        assert (error.type_name, error.message) == ("SystemExit", str(code))
    await ward.whole()
    assert ward.pids == before


@pytest.mark.full
@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit"])
async def test_what_ends_processes_or_generators_is_the_calls_error(open_ward: OpenWard, kind: str) -> None:
    ward = await open_ward()
    before = ward.pids
    error = await ward.fails(ward.pool.call("leave_by_exception", (kind,)), RemoteError)
    assert error.type_name == kind
    await ward.whole()
    assert ward.pids == before


@pytest.mark.full
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGALRM", "SIGUSR1", "SIGXCPU"])
async def test_a_signal_ends_it(open_ward: OpenWard, name: str) -> None:
    ward = await open_ward()
    error = await ward.fails(ward.pool.call("raise_signal", (name,)), ChildDied)
    assert (error.method, error.how) == ("raise_signal", f"signal {name}")
    await ward.whole()


@pytest.mark.full
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
async def test_a_signal_that_only_the_parent_may_act_on(open_ward: OpenWard, name: str) -> None:
    ward = await open_ward()
    before = ward.pids
    await ward.fails(ward.pool.call("raise_signal", (name,), timeout_ms=300), CallTimeout)
    await ward.whole()
    assert len(before & ward.pids) == 1  # it did not end by itself


@pytest.mark.parametrize(
    "numbers", [(2,), pytest.param((1,), marks=pytest.mark.full), pytest.param((0, 1, 2), marks=pytest.mark.full)]
)
async def test_it_closes_its_standard_streams_and_serves_on(open_ward: OpenWard, numbers: tuple[int, ...]) -> None:
    ward = await open_ward()
    before = ward.pids
    assert await ward.pool.call("close", numbers) == "closed"
    ward.others()
    # The parent's own descriptors of these streams may be given back early: the child that has closed them goes first.
    assert await asyncio.gather(*(ward.pool.call("echo", (n,)) for n in range(20))) == list(range(20))
    assert ward.pids == before
    for pid in before:
        kill(pid)
    await ward.whole()
    died = ward.made.told(ChildDiedEvent)
    assert sorted(event.pid for event in died) == sorted(before)


async def test_it_closes_everything(open_ward: OpenWard) -> None:
    ward = await open_ward()
    before = ward.pids
    error = await ward.fails(ward.pool.call("close_everything"), ChildDied)
    assert error.method == "close_everything"
    await ward.whole()
    assert before - ward.pids == {error.pid}


@pytest.mark.full
async def test_it_shuts_its_socket_and_stays(open_ward: OpenWard) -> None:
    ward = await open_ward()
    error = await ward.fails(ward.pool.call("shut_socket_and_hang"), ChildDied)
    assert (error.method, error.how) == ("shut_socket_and_hang", "signal SIGKILL")
    await ward.whole()


async def test_many_printed_lines_hold_up_nobody(open_ward: OpenWard) -> None:
    ward = await open_ward()
    printing = asyncio.create_task(ward.pool.call("print_lines", (20_000,)))
    await asyncio.sleep(0)
    ward.others()
    assert await printing == 20_000
    await ward.whole()


@pytest.mark.full
async def test_a_million_printed_lines(open_ward: OpenWard) -> None:
    ward = await open_ward()
    printing = asyncio.create_task(ward.pool.call("print_lines", (1_000_000,)))
    await asyncio.sleep(0)
    for _ in range(10):  # the other child serves all the while
        ward.others()
        await asyncio.gather(*(call for _, call in ward.taken()))
    assert await printing == 1_000_000
    await ward.whole()
    await wait_until(lambda: _told_of(ward.made.lines) >= 1_000_000)
    assert _told_of(ward.made.lines) == 1_000_000
    assert len(ward.made.lines) < 500_000  # the parent has other things to do


@pytest.mark.full
async def test_it_is_killed_while_it_prints_for_ever(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    error = await ward.fails(ward.pool.call("print_for_ever", (str(mark),), timeout_ms=500), CallTimeout)
    assert error.method == "print_for_ever"
    await ward.whole()
    assert await begun(mark) not in ward.pids


def _told_of(lines: list[tuple[str, str]]) -> int:
    """How many lines were handed on, those included that were only counted."""
    left_out = (re.match(r"… ([\d,]+) lines left out", line) for _, line in lines)
    return sum(int(found[1].replace(",", "")) if found else 1 for found in left_out)
