"""What an operator asks of a store: whether it is what it should be, and who else works on its queues."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

Level = Literal["ok", "warning", "problem"]


class Finding(Struct, frozen=True):
    """One thing that was looked at. `level`: as it should be, or worth knowing, or wrong. `advice` says what to do."""

    check: str
    level: Level
    said: str
    advice: str = ""


class StoreExam(Protocol):
    """Reads and judges; writes nothing but what `Store.check` does."""

    async def findings(self) -> list[Finding]:
        """What there is to say of the server or the file, in an order for reading. Raises `StoreUnavailable`."""
        ...

    async def strangers(self) -> dict[str, tuple[str, ...]]:
        """By queue, the workers of other programs that listen to it, as they name themselves. Queues without any are
        left out, and all where the store cannot say."""
        ...

    async def others(self) -> list[Finding]:
        """Warnings of programs of other makes at the queues: what they do not keep, and what they may break. Raises
        `StoreUnavailable`."""
        ...
