"""`locks ls|release`."""

from __future__ import annotations

import apsw

from workfleet.model.fleet import LockGrant
from workfleet.ports.stores import Store

from .conftest import Project


async def take(store: Store, name: str = "lock:ledger:acme", owner: str = "web-1-4711:token") -> LockGrant:
    grant = await store.locks.acquire(name, owner, 60_000)
    assert isinstance(grant, LockGrant)
    return grant


async def held(store: Store) -> list[str]:
    return [grant.name for grant in await store.locks.held()]


def test_what_is_held_by_whom_since_when_and_for_how_long(project: Project) -> None:
    project.make_store("shop")
    assert project("locks", "ls") == (0, "no locks\n", "")
    assert project("locks", "ls", "--json") == (0, "", "")
    grant = project.in_store(take)
    project.in_store(lambda store: take(store, "other:x", "somebody"))
    head, *rows = [line.split() for line in project("locks", "ls").out.splitlines()]
    assert head == ["NAME", "HOLDER", "FENCE", "SINCE", "REMAINING"]
    (mine, theirs) = rows
    assert mine[:3] == ["ledger:acme", "web-1-4711", str(grant.fence)]
    assert mine[4] == "ago"
    assert int(mine[5].removesuffix("s")) > 30
    assert theirs[:2] == ["other:x", "somebody"]
    mine_too, theirs_too = project("locks", "ls", "--json").documents
    left_ms, since, expires = (mine_too.pop(name) for name in ("remaining_ms", "since", "expires"))
    assert mine_too == {
        "name": "ledger:acme", "key": "lock:ledger:acme", "holder": "web-1-4711", "fence": grant.fence,
    }  # fmt: skip
    assert 30_000 < left_ms <= 60_000
    assert since < expires
    assert theirs_too["name"] == theirs_too["key"] == "other:x"


def test_since_when_is_not_guessed_once_the_clock_was_set_back(project: Project) -> None:
    project.in_store(lambda store: take(store, "lock:first"))
    with apsw.Connection(str(project.folder / ".workfleet" / "shop.db")) as db:
        db.execute("UPDATE wf_meta SET value = value + 3600000000 WHERE key = 'fence'")
    project.in_store(take)
    since = {each["name"]: each["since"] for each in project("locks", "ls", "--json").documents}
    assert since["first"] is not None
    assert since["ledger:acme"] is None
    assert [len(line.split()) for line in project("locks", "ls").out.splitlines()[1:]] == [6, 4]


def test_releasing_asks_and_says_what_it_did(project: Project) -> None:
    project.in_store(take)
    missing = project("locks", "release", "ledger", "--yes")
    assert missing == (4, "", "Error: nobody holds a lock 'ledger'. Held locks: ledger:acme\n")
    assert project("locks", "release", "ledger:acme", "--dry-run").out == (
        "ledger:acme, held by web-1-4711, would be released\n"
    )
    refused = project("locks", "release", "ledger:acme")
    assert refused.code == 2
    assert refused.err.startswith("Error: Release ledger:acme, held by web-1-4711? Nobody can be asked")
    assert project.typing("n\n", "locks", "release", "ledger:acme").code == 1
    assert project.in_store(held) == ["lock:ledger:acme"]
    assert project.typing("y\n", "locks", "release", "ledger:acme")[:2] == (0, "ledger:acme is released\n")
    assert project.in_store(held) == []
    missing = project("locks", "release", "ledger:acme", "--yes")
    assert missing == (4, "", "Error: nobody holds a lock 'ledger:acme'. Held locks: none\n")


def test_what_is_released_as_a_document(project: Project) -> None:
    project.in_store(take)
    lock = {"action": "release", "lock": "ledger:acme", "key": "lock:ledger:acme", "holder": "web-1-4711"}
    dry = project("locks", "release", "ledger:acme", "--dry-run", "--json").documents
    assert dry == [{**lock, "dry_run": True, "done": False}]
    done = project("locks", "release", "ledger:acme", "--yes", "--json").documents
    assert done == [{**lock, "dry_run": False, "done": True}]
    assert project.in_store(held) == []


def test_a_lock_is_also_named_by_its_whole_key(project: Project) -> None:
    project.in_store(take)
    project.in_store(lambda store: take(store, "other:x", "somebody"))
    assert project("locks", "release", "other:x", "--yes").out == "other:x is released\n"
    assert project("locks", "release", "lock:ledger:acme", "--yes").out == "ledger:acme is released\n"
    assert project.in_store(held) == []


def test_the_prefix_is_the_settings(project: Project) -> None:
    project.in_store(lambda store: take(store, "mine:a"))
    (document,) = project("locks", "ls", "--json", WORKER_LOCK__KEY_PREFIX="mine").documents
    assert (document["name"], document["key"]) == ("a", "mine:a")


def test_a_store_that_is_not_there(project: Project) -> None:
    ran = project("locks", "ls")
    assert ran.code == 3
    assert "it does not exist yet" in ran.err
    assert project("locks", "release").code == 2
