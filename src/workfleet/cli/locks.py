"""`workfleet locks ls|release`: the locks that are held in the fleet now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import click

from ..app.locking import OpenedLocks
from ..app.loops import run_loop
from ..errors import NotFound
from ..locks.locks import Locks, holder_of
from ..model.fleet import LockGrant
from .asking import agreed, asking_options
from .documents import instant
from .options import CONTEXT, Where, app_option, json_option
from .output import near, rough, write_done, write_listing, write_table
from .project import Target, opened, target_of

_TITLES = ("NAME", "HOLDER", ">FENCE", "SINCE", ">REMAINING")


@dataclass(frozen=True)
class _Lock:
    """A lock that is held: under its name in code, and as it is stored."""

    name: str
    grant: LockGrant
    now_ms: int

    @property
    def holder(self) -> str:
        return holder_of(self.grant.owner)

    @property
    def since_ms(self) -> int | None:
        """A fence is the instant of the taking in microseconds, unless the store's clock has been set back since."""
        since_ms = self.grant.fence // 1000
        return since_ms if since_ms <= self.now_ms else None

    @property
    def remaining_ms(self) -> int:
        return max(self.grant.expires_ms - self.now_ms, 0)

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "key": self.grant.name,
            "holder": self.holder,
            "fence": self.grant.fence,
            "since": instant(self.since_ms),
            "expires": instant(self.grant.expires_ms),
            "remaining_ms": self.remaining_ms,
        }

    def named(self) -> dict[str, str]:
        return {"lock": self.name, "key": self.grant.name, "holder": self.holder}

    def row(self) -> list[str]:
        since = near(self.since_ms, self.now_ms)
        return [self.name, self.holder, str(self.grant.fence), since, rough(self.remaining_ms)]


@click.group("locks", context_settings=CONTEXT)
def locks() -> None:
    """List the locks that are held, and release one.

    \b
    Examples:
      workfleet locks ls
      workfleet locks release ledger:acme
    """


@locks.command("ls")
@json_option
@app_option
def ls(*, where: Where, as_json: bool) -> int:
    """Every lock that is held: by whom, its fence, since when, and when it runs out unless it is renewed.

    \b
    Examples:
      workfleet locks ls
      workfleet locks ls --json | jq -r 'select(.remaining_ms < 10000) | .name'
    """
    target = target_of(where)
    found = run_loop(lambda: _held(target))
    write_listing(
        found,
        document=_Lock.document if as_json else None,
        table=lambda: write_table(_TITLES, [lock.row() for lock in found]),
        nothing="no locks",
    )
    return 0


@locks.command("release")
@click.argument("name")
@asking_options
@json_option
@app_option
def release(*, where: Where, name: str, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Free a lock, whoever holds it: for one whose holder hangs. Its body is cancelled at its next renewal, within a
    third of the TTL; until then two may be at work, unless what the lock protects checks fences.

    Exits 4 when nobody holds it.

    \b
    Examples:
      workfleet locks release ledger:acme --dry-run
      workfleet locks release ledger:acme --yes
    """
    target = target_of(where)
    found = run_loop(lambda: _held(target))
    lock = _chosen(found, name)
    document = {"action": "release", "dry_run": dry_run, **lock.named()}
    if dry_run:
        said = f"{lock.name}, held by {lock.holder}, would be released"
        write_done({**document, "done": False}, said, as_json=as_json)
        return 0
    if not agreed(f"Release {lock.name}, held by {lock.holder}?", yes=yes):
        return 1
    released = run_loop(lambda: _take_away(target, lock.grant))
    said = f"{lock.name} is released" if released else f"{lock.holder} does not hold {lock.name} any more"
    write_done({**document, "done": released}, said, as_json=as_json)
    return 0


def _chosen(found: list[_Lock], name: str) -> _Lock:
    """By its name, else by its whole key. Raises NotFound."""
    matching = [each for each in found if each.name == name] or [each for each in found if each.grant.name == name]
    if not matching:
        known = ", ".join(each.name for each in found) or "none"
        raise NotFound(f"nobody holds a lock {name!r}. Held locks: {known}")
    return matching[0]


@asynccontextmanager
async def _locks(target: Target) -> AsyncIterator[tuple[Locks, int]]:
    """The application's locks, and the time of their store."""
    async with opened(target) as client:
        own = OpenedLocks(client.session, target.composition.modules if target.composition else None)
        try:
            yield own.locks, await own.now_ms()
        finally:
            await own.close()


async def _held(target: Target) -> list[_Lock]:
    async with _locks(target) as (found, now_ms):
        return [_Lock(found.name_of(grant), grant, now_ms) for grant in await found.list()]


async def _take_away(target: Target, grant: LockGrant) -> bool:
    async with _locks(target) as (found, _):
        return await found.take_away(grant)
