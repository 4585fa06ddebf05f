"""What a guard needs of locks."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from workfleet.model.durations import DurationLike


class HeldLock(Protocol):
    """A lock while its body runs."""

    @property
    def fence(self) -> int: ...
    def check(self) -> None: ...


class LockTaker(Protocol):
    """Takes locks by name. Raises `LockBusy` and `LockUnavailable`."""

    def lock(
        self, name: str, *, ttl: DurationLike | None = None, wait: DurationLike | None = None
    ) -> AbstractAsyncContextManager[HeldLock]: ...
