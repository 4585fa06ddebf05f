"""What holds jobs of a queue back, across the fleet: how many run at once, how many start in a time, how groups take
turns. Limits are kept in the store, so that every worker judges by the same ones."""

from __future__ import annotations

from msgspec import Struct


class Rate(Struct, frozen=True):
    """At most `limit` starts within any `per_ms` milliseconds: a sliding window, so that no burst at its edge doubles
    it."""

    limit: int
    per_ms: int


class GroupLimits(Struct, frozen=True, omit_defaults=True):
    """What holds for one group of a queue. `weight` is how many of its jobs start in one turn."""

    weight: int = 1
    concurrency: int | None = None
    rate: Rate | None = None


class QueueLimits(Struct, frozen=True, omit_defaults=True):
    """What holds for a queue. `group` is for every group, but for those that `groups` has by their name."""

    concurrency: int | None = None
    rate: Rate | None = None
    group: GroupLimits = GroupLimits()
    groups: dict[str, GroupLimits] = {}

    def of_group(self, name: str) -> GroupLimits:
        """The limits of a group. Jobs without a group take turns as one more, which nothing but the queue limits."""
        return self.groups.get(name, self.group) if name else _UNGROUPED


class QueueRecord(Struct, frozen=True, omit_defaults=True):
    """A queue as the store keeps it, beside its jobs."""

    paused: bool = False
    limits: QueueLimits = QueueLimits()


_UNGROUPED = GroupLimits()
NO_LIMITS = QueueLimits()
