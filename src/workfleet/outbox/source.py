"""What the relay needs of an application's database. `sqlite.py` and `postgres.py` are the two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from .rows import Row


class Refusal(Struct, frozen=True):
    """A row that cannot be read, and why."""

    row: Row
    reason: str


class Leftovers(Struct, frozen=True):
    """How many rows stay where they are: marked as unreadable, of a version that this relay does not know, or, by the
    app's name, written for other apps long ago, whose workers do not move them."""

    refused: int = 0
    newer: int = 0
    others: dict[str, int] = {}


class Left(Struct, frozen=True):
    """A job that is still in the outbox: `ahead` rows are moved before it, and `error` says why it is not moved at all;
    "": it is."""

    ahead: int
    created_ms: int
    error: str = ""


class Source(Protocol):
    """The outbox table of one database, for one relay at a time.

    Every method raises `OutboxUnavailable` when the database does not answer; then nothing is held any more."""

    @property
    def shown(self) -> str:
        """Where it is, without secrets."""
        ...

    async def take(self, limit: int) -> list[Row]:
        """The first rows that no other relay holds, in order, and hold them until `finish` or `release`."""
        ...

    async def finish(self, moved: Sequence[Row], refused: Sequence[Refusal]) -> None:
        """Delete what was moved, mark what cannot be read, hold nothing any more."""
        ...

    async def release(self) -> None:
        """Hold nothing any more; the rows stay as they are."""
        ...

    async def leftovers(self, before_ms: int) -> Leftovers:
        """Count the rows that nobody moves; of other apps those that were written before an instant."""
        ...

    async def find(self, job_id: str) -> Left | None:
        """The row of a job, where it was not moved yet. Holds nothing."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait that long at the most: less where there may be new rows."""
        ...

    async def close(self) -> None:
        """Hold nothing and close what is open. A later call opens it again."""
        ...
