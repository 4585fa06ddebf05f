"""Who else is about the queues: BullMQ's own workers, and versions that pause a queue in another way. Reads only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from workfleet.errors import StoreUnavailable

from .asking import Asking
from .names import shown_name
from .scripts import Script
from .session import Session


class QueuePeers(Struct, frozen=True, kw_only=True):
    """What is known of a queue's other users.

    `version`: what the last BullMQ `Queue` that connected said of itself; `is_v5`: it was a v5 (or older).
    `kept_by_v5`: jobs in the list where v5 keeps those of a paused queue; None where there is no such list.
    `groups`: how many groups have ready jobs.
    `workers`: the client names of workers that are not this app's; None where the server does not say."""

    queue: str
    version: str | None
    is_v5: bool
    paused: bool
    kept_by_v5: int | None
    groups: int
    workers: tuple[str, ...] | None

    @property
    def warning(self) -> str | None:
        """What an operator should know and do, if anything."""
        if self.is_v5:
            seen = f"{self.version} uses queue {self.queue!r}"
        elif self.kept_by_v5 is not None:
            kept = f"{self.kept_by_v5} jobs where BullMQ 5 keeps those of a paused queue"
            seen = f"queue {self.queue!r} has {kept}"
        else:
            return None
        return (
            f"{seen}: pausing and resuming by BullMQ 5 beside BullMQ 6 can lose waiting jobs. Pause and resume it here "
            "only, and update its Node programs to BullMQ 6"
        )


class Peers:
    """Asks who else is there."""

    def __init__(self, session: Session) -> None:
        self._session, self._asking = session, Asking(session)
        self._script = Script.load("peers")

    async def of_queues(self, own: Collection[str]) -> list[QueuePeers]:
        """Of every queue that this app knows, by name. `own`: the names of the app's workers."""
        rows = await self._asking.ask(self._script, {})
        clients = await self._clients()
        return [self._peers(row, clients, own) for row in sorted(rows, key=lambda row: row[0])]

    def _peers(self, row: list[Any], clients: Collection[str] | None, own: Collection[str]) -> QueuePeers:
        queue, version, is_v5, paused, kept, groups = row[0].decode(), *row[1:]
        workers = None
        if clients is not None:
            prefix = self._session.layout.prefix
            base, ours = shown_name(prefix, queue), {shown_name(prefix, queue, worker) for worker in own}
            workers = tuple(
                sorted(name for name in clients if (name == base or name.startswith(f"{base}:w:")) and name not in ours)
            )
        return QueuePeers(
            queue=queue,
            version=None if version is None else version.decode(errors="backslashreplace"),
            is_v5=bool(is_v5),
            paused=bool(paused),
            kept_by_v5=kept,
            groups=groups,
            workers=workers,
        )

    async def _clients(self) -> list[str] | None:
        """The names of all connections."""
        try:
            listed: bytes = await self._session.connection.command("CLIENT", "LIST")
        except StoreUnavailable as error:
            if "NOPERM" in error.reason:
                return None
            raise
        words = (word for line in listed.decode(errors="replace").splitlines() for word in line.split(" "))
        return [word.removeprefix("name=") for word in words if word.startswith("name=") and word != "name="]
