"""What is said about a queue, and how much of it may start now: pauses, limits, rates, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from workfleet.model.limits import NO_LIMITS, QueueLimits, Rate

from .lane import Step

_FACTS = """
SELECT paused, limits, turn_grp, turn_taken,
  (SELECT min(grp) FROM wf_job INDEXED BY wf_job_ready WHERE queue = ?1 AND grp > '' AND state < 2),
  (SELECT due_ms FROM wf_job INDEXED BY wf_job_due
   WHERE queue = ?1 AND state = 2 AND parked = 0 AND due_ms <= ?2 ORDER BY due_ms LIMIT 1)
FROM wf_queue WHERE queue = ?1
"""
_START = """
INSERT INTO wf_start (queue, grp, at_ms, starts, until_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue, grp, at_ms) DO UPDATE SET starts = starts + excluded.starts
"""
_limits = msgspec.json.Decoder(QueueLimits)


@dataclass
class Line:
    """A queue during one claim. `groups` says whether any group has ready jobs, so that they take turns."""

    step: Step
    queue: int
    paused: bool
    limits: QueueLimits
    served: str | None
    taken: int
    groups: bool
    ripe: bool
    """Delayed jobs are due."""
    _room: dict[str | None, int | None] = field(default_factory=dict)
    """How many more may start, of the groups that were asked about and of the whole (None)."""
    _given: dict[str, int] = field(default_factory=dict)

    @property
    def limited(self) -> bool:
        return self.limits != NO_LIMITS

    def room(self, group: str | None, most: int) -> int:
        """How many more jobs of a group, or of the whole queue, the limits let start; `most` at the most."""
        if group not in self._room:
            self._room[group] = self._free(group)
        free = self._room[group]
        return most if free is None else min(most, free)

    def gave(self, group: str, count: int, *, in_turn: bool) -> None:
        """So many jobs of a group have started, in the turn of that group if groups take turns."""
        for which in (None, group):
            free = self._room.get(which)
            if free is not None:
                self._room[which] = free - count
        self._given[group] = self._given.get(group, 0) + count
        if in_turn:
            weight = max(self.limits.of_group(group).weight, 1)
            before = self.taken if group == self.served and self.taken < weight else 0
            self.served, self.taken = group, (before + count - 1) % weight + 1

    def note(self) -> None:
        """Write down whose turn it is, and what a rate will ask about."""
        if not self._given:
            return
        if self.groups:
            turn = "UPDATE wf_queue SET turn_grp = ?, turn_taken = ? WHERE queue = ?"
            self.step.change(turn, self.served, self.taken, self.queue)
        if self.limits.rate is not None:
            self._note_starts("", self.limits.rate, sum(self._given.values()))
        for group, count in self._given.items():
            rate = self.limits.of_group(group).rate
            if rate is not None:
                self._note_starts(group, rate, count)

    def ring(self) -> Iterator[str]:
        """The groups with ready jobs, "" too, once around: from the one whose turn it is."""
        first = self.served or ""
        goes_on = self.served is None or self.taken < max(self.limits.of_group(self.served).weight, 1)
        group = next_group(self.step, self.queue, first, with_it=goes_on)
        while group is not None:
            yield group
            group = next_group(self.step, self.queue, group)
        if self.served is None:
            return
        group = next_group(self.step, self.queue, "", with_it=True)
        while group is not None and (group < first or (group == first and not goes_on)):
            yield group
            group = next_group(self.step, self.queue, group)

    def _free(self, group: str | None) -> int | None:
        if group is None:
            most, rate = self.limits.concurrency, self.limits.rate
        else:
            of_group = self.limits.of_group(group)
            most, rate = of_group.concurrency, of_group.rate
        free = []
        if most is not None:
            free.append(most - running(self.step, self.queue, group))
        if rate is not None:
            free.append(rate.limit - started(self.step, self.queue, group or "", rate))
        return max(min(free), 0) if free else None

    def _note_starts(self, group: str, rate: Rate, count: int) -> None:
        now = self.step.now
        old = "DELETE FROM wf_start WHERE queue = ? AND grp = ? AND (at_ms <= ? OR at_ms > ?)"
        self.step.change(old, self.queue, group, now - rate.per_ms, now)
        self.step.change(_START, self.queue, group, now, count, now + rate.per_ms)


def line_of(step: Step, queue: int) -> Line:
    """A queue as it is now."""
    row = step.row(_FACTS, queue, step.now)
    assert row is not None
    paused, limits, served, taken, group, due_ms = row
    return Line(step, queue, bool(paused), limits_of(limits), served, taken, group is not None, due_ms is not None)


def limits_of(stored: bytes | None) -> QueueLimits:
    """Limits as stored. What this version cannot read limits nothing: work that stands still helps nobody."""
    if stored is None:
        return NO_LIMITS
    try:
        return _limits.decode(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return NO_LIMITS


def limits_concurrency(limits: QueueLimits) -> bool:
    """Whether it is limited how many jobs of the queue, or of a group of it, run at once."""
    of_groups = (limits.group, *limits.groups.values())
    return limits.concurrency is not None or any(of.concurrency is not None for of in of_groups)


def limits_rate(limits: QueueLimits) -> bool:
    """Whether it is limited how many jobs of the queue, or of a group of it, start in a time."""
    of_groups = (limits.group, *limits.groups.values())
    return limits.rate is not None or any(of.rate is not None for of in of_groups)


def next_group(step: Step, queue: int, after: str, *, with_it: bool = False) -> str | None:
    """The next group by name that has ready jobs: one look into the index, however many jobs there are."""
    found = "SELECT min(grp) FROM wf_job INDEXED BY wf_job_ready WHERE queue = ? AND grp > ? AND state < 2"
    row = step.row(found.replace("grp > ?", "grp >= ?") if with_it else found, queue, after)
    return None if row is None else row[0]


def running(step: Step, queue: int, group: str | None) -> int:
    """How many jobs of a group, or of the whole queue, are active. Counted, so that no figure can drift."""
    count = "SELECT count(*) FROM wf_job INDEXED BY wf_job_counted WHERE counted = 1 AND state = 3 AND queue = ?"
    row = step.row(count, queue) if group is None else step.row(f"{count} AND grp = ?", queue, group)
    assert row is not None
    active: int = row[0]
    return active


def started(step: Step, queue: int, group: str, rate: Rate) -> int:
    """How many have started within the window that ends now."""
    # None is in the future, unless the clock was set back: such a start is in no window that ends now.
    count = "SELECT coalesce(sum(starts), 0) FROM wf_start WHERE queue = ? AND grp = ? AND at_ms > ? AND at_ms <= ?"
    row = step.row(count, queue, group, step.now - rate.per_ms, step.now)
    assert row is not None
    starts: int = row[0]
    return starts


def rate_allows_ms(step: Step, queue: int, group: str, rate: Rate | None) -> int | None:
    """When a rate lets one more job start: now, later, or never (None). The group "" is the whole queue."""
    if rate is None:
        return step.now
    if rate.limit <= 0:
        return None
    within = """
        SELECT at_ms, starts FROM wf_start WHERE queue = ? AND grp = ? AND at_ms > ? AND at_ms <= ? ORDER BY at_ms DESC
    """
    total = 0
    for at_ms, starts in step.rows(within, queue, group, step.now - rate.per_ms, step.now):
        total += starts
        if total >= rate.limit:
            # A start at t is within every window that begins after t - per_ms.
            free_ms: int = at_ms + rate.per_ms
            return free_ms
    return step.now
