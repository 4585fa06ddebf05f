"""A queue in memory: whose turn it is, and what its limits let start."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection
from dataclasses import dataclass, field

from workfleet.model.limits import QueueLimits, QueueRecord, Rate

WHOLE = None
"""In the place of a group: the whole queue."""


@dataclass
class Queue:
    """What is kept of a queue beside its jobs."""

    record: QueueRecord = field(default_factory=QueueRecord)
    had_jobs: bool = False
    had_users_jobs: bool = False
    """Whether one of its jobs was not the product's own."""
    served: str | None = None
    """The group whose turn it is or was, and how many of its jobs have started in it."""
    served_jobs: int = 0
    starts: dict[str | None, list[int]] = field(default_factory=dict)
    """When jobs started, oldest first, of every group and of the whole, where a rate asks."""

    def set_limits(self, limits: QueueLimits) -> None:
        """Replace the limits. What had started is forgotten where no rate asks any more."""
        self.record = QueueRecord(paused=self.record.paused, limits=limits)
        self.starts = {group: starts for group, starts in self.starts.items() if self._rate(group) is not None}

    def concurrency(self, group: str | None) -> int | None:
        """How many jobs of a group, or of the whole, may run at once."""
        limits = self.record.limits
        return limits.concurrency if group is WHOLE else limits.of_group(group).concurrency

    def start(self, group: str, now_ms: int, *, in_turns: bool) -> None:
        """A job of this group starts."""
        for which in (WHOLE, group):
            if self._rate(which) is not None:
                insort(self.starts.setdefault(which, []), now_ms)
        if in_turns:
            self.served_jobs = self.served_jobs + 1 if self._goes_on(group) else 1
            self.served = group

    def next_turn(self, groups: Collection[str]) -> str:
        """Which of these groups is next: the one whose turn it is, else the first name after it, else the first."""
        if self.served is not None and self.served in groups and self._goes_on(self.served):
            return self.served
        later = [group for group in groups if self.served is None or group > self.served]
        return min(later or groups)

    def rate_allows_ms(self, group: str | None, now_ms: int) -> int | None:
        """When the rate lets one more job start: now, later, or never (None)."""
        rate = self._rate(group)
        if rate is None:
            return now_ms
        # A start at t is within every window that begins after t - per_ms: the last such instant is t + per_ms - 1.
        # None is in the future, unless the clock was set back: such a start is in no window that ends now.
        within = [start for start in self.starts.get(group, ()) if start <= now_ms < start + rate.per_ms]
        if len(within) < rate.limit:
            return now_ms
        return within[-rate.limit] + rate.per_ms if rate.limit > 0 else None

    def forget(self, now_ms: int) -> None:
        """Drop starts that no window holds any more."""
        for group, starts in self.starts.items():
            rate = self._rate(group)
            starts[:] = [start for start in starts if rate is not None and start + rate.per_ms > now_ms]
        self.starts = {group: starts for group, starts in self.starts.items() if starts}

    def _rate(self, group: str | None) -> Rate | None:
        limits = self.record.limits
        return limits.rate if group is WHOLE else limits.of_group(group).rate

    def _goes_on(self, group: str) -> bool:
        """Whether the turn of a group that was served last goes on."""
        return group == self.served and self.served_jobs < self.record.limits.of_group(group).weight
