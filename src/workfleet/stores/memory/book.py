"""What the memory store keeps of jobs: entries, the queues that they are in, and who holds which unique key.

Every change of a job's life goes through here, so that what belongs together changes together. It judges nothing that
the callers decide: who may claim, what an outcome is, what to delete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workfleet.model.jobs import EXPIRED, READY, JobState
from workfleet.ports.clock import Clock

from ..wakes import Wakes, queue_topic
from .entries import Entry, never_starts, place, ready, state_now
from .queue import WHOLE, Queue


@dataclass(frozen=True)
class Hold:
    """Who holds a unique key: until an instant, or (None) as long as the job's state says."""

    job_id: str
    until_ms: int | None


class Book:
    """The jobs of one app. `sweeps` delete what has expired elsewhere in the store."""

    def __init__(self, clock: Clock, wakes: Wakes, sweeps: Sequence[Callable[[], None]] = ()) -> None:
        self._clock, self.wakes, self.sweeps = clock, wakes, sweeps
        self.entries: dict[str, Entry] = {}
        self.open: defaultdict[str, dict[str, Entry]] = defaultdict(dict)
        """Those of them that have not finished, by queue and id."""
        self.active: dict[str, Entry] = {}
        """Those of these that are active, by id, in the order in which they were handed out."""
        self.queues: dict[str, Queue] = {}
        self.holds: dict[str, Hold] = {}
        """Unique keys that are held."""
        self.replaced: dict[str, Entry] = {}
        """What took the payload of newcomers, by their ids."""
        self._by_key: defaultdict[str, dict[str, Entry]] = defaultdict(dict)
        """Unfinished jobs with a unique key, whether they hold it or not, by key and id."""
        self._numbers = 0

    def next_number(self) -> int:
        """The next in the order of enqueueing."""
        self._numbers += 1
        return self._numbers

    def now(self) -> int:
        return self._clock.now_ms()

    def queue(self, name: str) -> Queue:
        """A queue, which is known from now on."""
        return self.queues.setdefault(name, Queue())

    def ready_on(self, name: str) -> list[Entry]:
        """A queue's ready jobs in the order of claims, without regard to groups. What is due has become ready."""
        now, entries = self.now(), list(self.open[name].values()) if name in self.open else []
        for entry in entries:
            if entry.record.state is JobState.DELAYED:
                entry.record.state = state_now(entry.record, now)
        return sorted((entry for entry in entries if entry.record.state in READY), key=place)

    def running(self, name: str, group: str | None = WHOLE) -> int:
        """How many jobs of a queue, or of one of its groups, are active."""
        return sum(e.record.queue == name and group in (WHOLE, e.record.group) for e in self.active.values())

    def holder(self, key: str | None) -> Hold | None:
        """Who holds a unique key now."""
        hold = None if key is None else self.holds.get(key)
        return hold if hold is not None and (hold.until_ms is None or hold.until_ms > self.now()) else None

    def free_of_expired(self, key: str | None) -> None:
        """A holder of a unique key that will never start fails, unless it holds the key for a time."""
        hold = None if key is None else self.holds.get(key)
        entry = None if hold is None or hold.until_ms is not None else self.entries.get(hold.job_id)
        if entry is not None and never_starts(entry.record, self.now()):
            entry.record.outcome, entry.record.failure = EXPIRED.code, EXPIRED
            self.end(entry, JobState.FAILED)

    def begun(self, key: str | None) -> list[Entry]:
        """The unfinished jobs of a unique key that were claimed."""
        return [] if key is None else [entry for entry in self._by_key.get(key, {}).values() if entry.claimed]

    def begin(self, entry: Entry) -> None:
        """A job begins its life, or a new one: it takes its key, and is ready, delayed or parked. Wakes."""
        record, now = entry.record, self.now()
        self.entries[record.id] = self.open[record.queue][record.id] = entry
        if record.unique_key is not None:
            rule, same_key = record.unique, self._by_key[record.unique_key]
            self.holds[record.unique_key] = Hold(record.id, now + rule.window_ms if rule.window_ms else None)
            record.parked = rule.exclusive and any(other.claimed for other in same_key.values())
            same_key[record.id] = entry
        record.state = state_now(record, now)
        self.wakes.announce([queue_topic(record.queue)])

    def hand_out(self, entry: Entry, holder: str, token: str, lease_ms: int) -> None:
        """A job is active from now on, under this claim."""
        record = entry.record
        entry.holder = holder
        record.state, record.token, record.lease_until_ms = JobState.ACTIVE, token, self.now() + lease_ms
        self.active.pop(record.id, None)
        self.active[record.id] = entry

    def start(self, entry: Entry, worker: str) -> None:
        """A job that was handed out runs."""
        record = entry.record
        if not entry.claimed and record.unique_key is not None:
            if record.unique.until == "started":
                self._leave_key(entry)
            for other in self._by_key[record.unique_key].values():
                if other is not entry and other.record.unique.exclusive and not other.claimed:
                    other.record.parked, other.record.state = True, JobState.DELAYED
        record.worker, record.started_ms = worker, self.now()

    def put_back(self, entry: Entry, *, delay_ms: int | None) -> None:
        """A job that was active is delayed, or ready at its old place (None). Wakes."""
        self._let_go(entry)
        if delay_ms is None:
            entry.record.state = ready(entry.record)
        else:
            entry.record.due_ms = self.now() + max(delay_ms, 0)
            entry.record.state = state_now(entry.record, self.now())
        self.wakes.announce([queue_topic(entry.record.queue)])

    def end(self, entry: Entry, state: JobState) -> None:
        """A job finishes. Its key, its slot and who is parked behind it are free."""
        self._let_go(entry)
        self._close(entry)
        entry.record.state, entry.record.finished_ms, entry.record.parked = state, self.now(), False

    def delete(self, entry: Entry) -> None:
        """A job that is not active is gone."""
        if not entry.finished:
            self._close(entry)
        for newcomer in entry.replaced_by:
            self.replaced.pop(newcomer, None)
        del self.entries[entry.record.id]

    def forget(self) -> None:
        """Drop what has expired."""
        self.holds = {key: hold for key, hold in self.holds.items() if self.holder(key)}
        for queue in self.queues.values():
            queue.forget(self.now())
        for sweep in self.sweeps:
            sweep()

    def _let_go(self, entry: Entry) -> None:
        """Nobody holds a claim on it any more. A slot that this frees under a limit wakes."""
        record = entry.record
        if self.active.pop(record.id, None) is not None:
            queue = self.queue(record.queue)
            if queue.concurrency(WHOLE) is not None or queue.concurrency(record.group) is not None:
                self.wakes.announce([queue_topic(record.queue)])
        record.worker = record.token = record.lease_until_ms = entry.holder = None

    def _close(self, entry: Entry) -> None:
        record = entry.record
        del self.open[record.queue][record.id]
        if record.unique_key is None:
            return
        same_key = self._by_key[record.unique_key]
        del same_key[record.id]
        self._leave_key(entry)
        self._unpark(list(same_key.values()))
        if not same_key:
            del self._by_key[record.unique_key]

    def _leave_key(self, entry: Entry) -> None:
        """Free the key that a job holds, unless it holds it for a time."""
        key = entry.record.unique_key
        if key is not None and self.holds.get(key) == Hold(entry.record.id, None):
            del self.holds[key]

    def _unpark(self, same_key: Sequence[Entry]) -> None:
        """The first that is parked need not wait any longer, if no other one of the key was claimed. Wakes."""
        parked = sorted((entry for entry in same_key if entry.record.parked), key=lambda entry: entry.number)
        if parked and not any(entry.claimed for entry in same_key):
            record = parked[0].record
            record.parked = False
            record.state = state_now(record, self.now())
            self.wakes.announce([queue_topic(record.queue)])
