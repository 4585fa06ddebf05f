"""What a soak of schedules comes to: a pure count over the slots that there were, what the store says, and what the
processes left behind.

A fire is the job of a slot; a run is what a process did about it. Runs are at least once: a process that is killed
between what it did and its settlement has the job run again. Doubled is a slot with two jobs, one that two processes
were told to have fired, or one that the schedule has counted twice."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.schedules import ScheduleRecord

_IN_TIME_NS = 1_000_000_000
"""For so long a process had the time to fire what its clock had reached."""

Slot = tuple[str, int]
"""A schedule's name, and the instant in ms."""


@dataclass(frozen=True)
class Note:
    """What a process left behind: its scheduler was told that it had "fired" a slot, or its handler "ran"."""

    ns: int
    what: Literal["fired", "ran"]
    slot: Slot
    job_id: str


@dataclass(frozen=True)
class Life:
    """A process with its clock, from its first work until it was killed (None: until the end)."""

    skew_ms: int
    up_ns: int
    killed_ns: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The counts. `problems` is empty when every promise was kept."""

    expected: int
    fired: int
    missed: int
    doubled: int
    ran_again: int
    problems: tuple[str, ...]


def judge(
    expected: Mapping[str, Sequence[int]],
    schedules: Mapping[str, ScheduleRecord],
    jobs: Iterable[JobRecord],
    notes: Iterable[Note],
) -> Verdict:
    """`expected` are the slots by schedule, `schedules` and `jobs` what the store has at the end, `notes` what was
    written down outside of it."""
    wanted = {(name, slot) for name, slots in expected.items() for slot in slots}
    of_slots = [job for job in jobs if job.schedule in expected and job.slot_ms is not None]
    stored, ran = defaultdict[Slot, set[str]](set), defaultdict[Slot, set[str]](set)
    told, runs = Counter[Slot](), Counter[str]()
    for job in of_slots:
        stored[str(job.schedule), int(job.slot_ms or 0)].add(job.id)
    for note in notes:
        if note.what == "fired":
            told[note.slot] += 1
        else:
            ran[note.slot].add(note.job_id)
            runs[note.job_id] += 1
    counted = {name: schedules[name].fired if name in schedules else 0 for name in expected}
    none: set[str] = set()
    stored_of, slots = Counter(name for name, _ in stored), {*stored, *ran, *told}
    doubled = {slot: max(len(stored.get(slot, none) | ran.get(slot, none)), told[slot]) - 1 for slot in slots}
    beyond = {name: counted[name] - stored_of[name] for name in expected if counted[name] != stored_of[name]}
    crashes = {job.id: job.crashes for job in of_slots}
    without_crash = sorted(job_id for job_id, count in runs.items() if count - 1 > crashes.get(job_id, 0))
    lists: dict[str, list[str]] = {
        "missed, no job of theirs is in the store": _named(wanted - set(stored)),
        "missed, nobody has run them": _named((wanted & set(stored)) - set(ran)),
        "doubled": _named(slot for slot, count in doubled.items() if count > 0),
        "fired, but no slot": _named(slots - wanted),
        "schedules whose count of fires is not that of their jobs": [f"{n} ({c:+})" for n, c in sorted(beyond.items())],
        "schedules with skipped or missed slots, or not at their end": _uneven(expected, schedules),
        "jobs that are not completed": sorted(job.id for job in of_slots if job.state is not JobState.COMPLETED),
        "jobs that ran again without a crash": without_crash,
    }
    return Verdict(
        expected=len(wanted),
        fired=sum(counted.values()),
        missed=len(wanted - (set(stored) & set(ran))),
        doubled=max(sum(count for count in doubled.values() if count > 0), sum(c for c in beyond.values() if c > 0)),
        ran_again=sum(runs.values()) - len(runs),
        problems=tuple(f"{what}: {_some(those)}" for what, those in lists.items() if those),
    )


def lateness_ms(notes: Iterable[Note], lives: Sequence[Life]) -> list[int]:
    """How late each slot was fired, sorted: since the first clock had reached it, of the processes that worked for
    another second at least, until it was told to have been fired, or had run where who fired it was killed too soon to
    tell. A clock that is ahead of all others takes what it alone had reached along when its process is killed."""
    first: dict[Slot, int] = {}
    for note in notes:
        first[note.slot] = min(note.ns, first.get(note.slot, note.ns))
    reached = {slot: _reached_ns(slot, lives) for slot in {slot for _, slot in first}}
    return sorted(max(ns - reached[slot], 0) // 1_000_000 for (_, slot), ns in first.items())


def at_share(sorted_ms: Sequence[int], share: float) -> int:
    """The least value that so many of all do not exceed."""
    if not sorted_ms:
        return 0
    ranks = [(rank + 1) / len(sorted_ms) for rank in range(len(sorted_ms))]
    return sorted_ms[min(bisect_left(ranks, share), len(sorted_ms) - 1)]


def _reached_ns(slot_ms: int, lives: Sequence[Life]) -> int:
    reached = ((max(life.up_ns, (slot_ms - life.skew_ms) * 1_000_000), life.killed_ns) for life in lives)
    in_time = (at for at, killed in reached if killed is None or at + _IN_TIME_NS <= killed)
    return min(in_time, default=slot_ms * 1_000_000)


def _uneven(expected: Iterable[str], schedules: Mapping[str, ScheduleRecord]) -> list[str]:
    found = [schedules.get(name) for name in expected]
    return [
        f"{each.name} ({each.skipped} skipped, {each.missed_count} missed, next {each.next_due_ms})"
        for each in found
        if each is not None and (each.skipped or each.missed_count or each.next_due_ms is not None)
    ]


def _named(slots: Iterable[Slot]) -> list[str]:
    return [f"{name} at {slot}" for name, slot in sorted(slots)]


def _some(those: Sequence[str]) -> str:
    more = f" and {len(those) - 10:,} more" if len(those) > 10 else ""
    return f"{len(those):,}: {', '.join(those[:10])}{more}"
