"""The state machine finds nothing between two memory stores, and finds every bug that is put into one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.stores.memory.entries import Entry
from workfleet.stores.memory.queue import Queue
from workfleet.stores.memory.store import MemoryStore
from workfleet.testing.contracts.machine import compare


async def memory(app: str, clock: Clock) -> Store:
    return MemoryStore(app, clock)


def test_two_of_a_kind_do_not_differ() -> None:
    compare(memory, examples=100)


@pytest.mark.full
def test_two_of_a_kind_do_not_differ_for_longer() -> None:
    compare(memory, examples=1_000, steps=60, random=True)


def keys_are_never_free(store: MemoryStore) -> None:
    store.jobs._book._leave_key = lambda entry: None  # type: ignore[method-assign]


def nobody_is_unparked(store: MemoryStore) -> None:
    store.jobs._book._unpark = lambda same_key: None  # type: ignore[method-assign]


def leases_end_late(store: MemoryStore) -> None:
    book = store.jobs._book
    hand_out = book.hand_out
    book.hand_out = lambda entry, holder, token, lease_ms: hand_out(  # type: ignore[method-assign]
        entry, holder, token, lease_ms + 1
    )


def expired_keys_are_kept(store: MemoryStore) -> None:
    book = store.jobs._book
    book.holder = lambda key: book.holds.get(key or "")  # type: ignore[method-assign]


def a_group_is_counted_as_the_whole(store: MemoryStore) -> None:
    book = store.jobs._book
    running = book.running
    book.running = lambda name, group=None: running(name)  # type: ignore[method-assign]


def turns_are_forgotten(store: MemoryStore) -> None:
    book = store.jobs._book
    known = book.queue

    def queue(name: str) -> Queue:
        there = known(name)
        there.next_turn = min  # type: ignore[method-assign]
        return there

    book.queue = queue  # type: ignore[method-assign]


def starts_are_forgotten(store: MemoryStore) -> None:
    book = store.jobs._book
    ready_on = book.ready_on

    def forgetting(name: str) -> list[Entry]:
        for queue in book.queues.values():
            queue.starts.clear()
        return ready_on(name)

    book.ready_on = forgetting  # type: ignore[method-assign]


BUGS = [
    keys_are_never_free,
    nobody_is_unparked,
    leases_end_late,
    expired_keys_are_kept,
    a_group_is_counted_as_the_whole,
    turns_are_forgotten,
    starts_are_forgotten,
]


@pytest.mark.parametrize("bug", [*BUGS[:3], *(pytest.param(bug, marks=pytest.mark.full) for bug in BUGS[3:])])
def test_finds_a_bug(bug: Callable[[MemoryStore], None]) -> None:
    async def broken(app: str, clock: Clock) -> Store:
        store = MemoryStore(app, clock)
        bug(store)
        return store

    with pytest.raises(AssertionError):
        compare(broken, examples=500)


def test_without_hypothesis_it_says_what_to_install() -> None:
    program = """
import sys
sys.modules["hypothesis"] = None
import workfleet.testing.contracts
from workfleet.errors import UsageError
try:
    import workfleet.testing.contracts.machine
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "workfleet.testing.contracts.machine needs hypothesis: `pip install hypothesis`\n"
