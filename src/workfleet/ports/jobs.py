"""The part of the store seam that keeps jobs; see `stores.py` for what holds for every call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from workfleet.model.jobs import CancelAnswer, Children, Claim, Enqueued, JobCounts, JobRecord, JobState
from workfleet.model.outcome import Ended, Settlement


class Want(Struct, frozen=True):
    """How many jobs a worker has free slots for on a queue. `share` is what the queue gets before any gets more
    (None: all of `limit`)."""

    queue: str
    limit: int
    share: int | None = None


class ClaimRequest(Struct, frozen=True):
    """Jobs wanted under one new token, `total` at the most. `wants` are served in their order: first each up to its
    share, then, with what is left, each up to its limit."""

    worker: str
    token: str
    lease_ms: int
    wants: tuple[Want, ...]
    total: int | None = None


class TakeOver(Struct, frozen=True):
    """Active jobs of dead owners wanted under one new token, the oldest lease first.

    `workers` None: those whose lease has expired. Else: those that one of `workers` holds, because it claimed them or
    took them over; what another worker took over from it is not among them."""

    worker: str
    token: str
    lease_ms: int
    limit: int = 100
    workers: tuple[str, ...] | None = None


class Settled(Struct, frozen=True):
    """`applied[i]` is False where the ith claim was stale, which changed nothing; True again for a repeat."""

    applied: list[bool]
    claimed: list[JobRecord]
    held_back: dict[int, Ended] = {}
    """What comes of a run whose job its children keep from completing, by its place; `applied` says False. The job goes
    on being held until it is settled with that. Only a Redis store has such jobs."""
    left_out: dict[int, tuple[int, ...]] = {}
    """By the place of a run, the places of those of its follow-up jobs that were not added: another job holds their
    unique key, or has their id. Of a repeat only those whose key was held, while the run's result is there."""


class Place(Struct, frozen=True):
    """What a job waits for, as far as only the store can tell.

    `ahead`: how many jobs of its queue and group are ready and come before it; 0 where it is not ready itself. What is
    due counts as ready, at the place that the next claim gives it; of thousands a store need not look at each.
    `rival`: the job with its exclusive unique key for which it is parked. `starts_ms`: when the rates of its queue and
    group let one more job start, which may be now or past; None: never."""

    ahead: int = 0
    rival: str | None = None
    starts_ms: int | None = None


class JobQuery(Struct, frozen=True):
    """What to list, newest first. None does not filter."""

    queue: str | None = None
    states: tuple[JobState, ...] | None = None
    name: str | None = None
    limit: int = 100
    offset: int = 0
    housekeeping: bool = True
    """Whether the product's own jobs (heartbeats, probes) are listed too."""
    tag: str | None = None
    group: str | None = None
    created_from_ms: int | None = None
    """Created at this instant or later."""
    created_before_ms: int | None = None
    """Created before this instant."""
    text: str | None = None
    """In the payload's JSON, or in the message or type of the failure; ASCII letters match in either case."""
    after: tuple[int, str] | None = None
    """Only what comes after a job in this order, given as its `created_ms` and id: the next page."""


class PruneRule(Struct, frozen=True):
    """Which finished jobs to delete: finished more than `age_ms` ago, and beyond the newest `count` of each queue.

    It is about the product's own jobs with `housekeeping`, else about all others. Jobs that have a rule of their own
    for the state (`JobRecord.keep`) are not its business: `prune` deletes those by theirs."""

    state: JobState
    age_ms: int | None = None
    count: int | None = None
    housekeeping: bool = False


class JobStore(Protocol):
    """Jobs from enqueue to deletion.

    Calls by id take the queue in which to look: a job of another one is not there. None: whichever has it. The ids of
    our own jobs are unique, but BullMQ counts those that it makes queue by queue."""

    async def enqueue(self, jobs: Sequence[JobRecord], *, call: str | None = None) -> list[Enqueued]:
        """Add jobs, all in one step. A job whose id exists, or whose unique key is held (`UniqueRule`), is not added;
        the answer names the job that is there, or that holds the key. The id of a newcomer that was the last to replace
        a job exists as that job, while it is there. A repeat under the same `call` says "created" of what it added and
        "replaced" of what it replaced; it does not add again what `settle` did not keep.

        Sets `created_ms`; `due_ms`: the latest of now, now + `delay_ms` and the given `due_ms`; and `expires_ms`: the
        earlier of now + `expires_after_ms` and the given one. The state is `delayed` when due later or parked,
        `prioritized` with a priority, else `waiting`. Wakes whoever waits for one of the queues."""
        ...

    async def claim(self, request: ClaimRequest) -> list[JobRecord]:
        """Hand out ready jobs: per wanted queue up to its limit. LIFO jobs come first among `waiting`, last in first
        out, then first in first out; `prioritized` ones after them, by priority, then first in first out. First in is
        who became ready first (`due_ms`), then who was enqueued first. Delayed jobs that are due have become ready
        before (a store may leave all but the first 1,000 of a queue for the next claim).

        Where a queue has ready jobs of groups, the groups take turns in the order of their names, after the one that
        was served last, by whichever claim; in a turn a group gets up to its weight, and where a claim ends within a
        turn, the next goes on with it. Jobs without a group are one more, "". A claim that finds no ready job of a
        group leaves the turns as they are. Nothing is handed out of a paused queue, nor beyond a limit of the queue or
        the group (`QueueLimits`): what is active counts for concurrency; for rates, what was handed out within the
        window, ended or not, since the rate was set.

        A claimed job is `active`, with worker, token, lease end and `started_ms`; its attempt counters are untouched. A
        repeated token gives the jobs it was given and still holds. A job that cannot be decoded fails with the outcome
        `undecodable` and stands in nobody's way: the same claim hands out others in its place. Where it meets very many
        of them, it leaves the rest to the next claim, and wakes for it."""
        ...

    async def settle(self, settlements: Sequence[Settlement], then: ClaimRequest | None = None) -> Settled:
        """Apply outcomes under their claims, add their follow-up jobs, and claim more in the same step. Where another
        job stands for a follow-up one, because it holds its unique key, the result is the list of those that stand.

        Takes over state, counters, result, failure and the attempt into the history, which keeps the newest
        `HISTORY_LIMIT`; a finished job gets `finished_ms`, a delayed one `due_ms = now + delay_ms` (a delay of 0 makes
        it ready at once, behind those that are). One that is settled as ready (given back, crashed) returns to its
        place in the order. Lease, worker and token are cleared. What its end allows (a parked job, a free slot of a
        limited queue) becomes ready and wakes in the same step. A stale claim changes nothing and adds nothing.

        A job whose own rule for that state keeps none (`KeepRule.count` 0) may be gone in the same step, with its logs,
        as BullMQ does it: a Redis store deletes it now, the others at the next `prune`. A repeat is known all the same,
        for some minutes.
        """
        ...

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        """Extend leases to now + `lease_ms`; False for a stale claim. An expired lease that nobody took over renews."""
        ...

    async def report(
        self, claim: Claim, *, progress: bytes | None = None, lines: Sequence[str] = (), call: str | None = None
    ) -> bool:
        """Set the progress and append log lines under a claim; False for a stale one. A repeat of the job's last `call`
        appends nothing."""
        ...

    async def take_over(self, request: TakeOver) -> list[JobRecord]:
        """Move active jobs of dead owners to a new token and lease, for somebody to decide about them. `worker` still
        says who ran them. A repeated token gives the jobs it was given and still holds."""
        ...

    async def get(self, ids: Sequence[str], *, queue: str | None = None) -> list[JobRecord | None]:
        """Jobs by id, None for what is not there. Raises `UsageError` for an id of which there are several jobs."""
        ...

    async def find(self, query: JobQuery) -> list[JobRecord]:
        """Jobs that match, newest first: by creation, then by id, both descending."""
        ...

    async def logs(self, job_id: str, *, queue: str | None = None) -> list[str]:
        """The job's log lines, oldest first."""
        ...

    async def place(self, job_id: str, *, queue: str | None = None) -> Place | None:
        """What an unfinished job waits for; None where there is no such job. For people who ask: it may look at every
        job of the queue."""
        ...

    async def children(self, job_id: str, *, queue: str | None = None) -> Children:
        """What became of the children of a job. Only BullMQ's flows have children, and only a Redis store has flows."""
        ...

    async def counts(self, *, housekeeping: bool = True) -> dict[str, JobCounts]:
        """Counts per queue that has or had jobs; when told so, without the product's own jobs and the queues that never
        had any other."""
        ...

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        """When there may be something to claim from these queues without a wake-up: the first delayed job is due, or
        a rate lets the next ready job start. Paused queues and parked jobs do not count. Asked right after a claim
        from them that handed out less than was asked for, a store may answer with what that claim saw."""
        ...

    async def expires_in_ms(self) -> int | None:
        """In how many milliseconds the first lease of an active job ends; 0 or less: it has. None: no job is active, so
        that none can expire within a lease from now."""
        ...

    async def retry(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        """Make failed jobs ready again, now: as newly enqueued, but with their history and logs, and never expired.
        False where not failed, and where another job holds the unique key by now."""
        ...

    async def cancel(self, ids: Sequence[str], *, queue: str | None = None) -> list[CancelAnswer]:
        """Cancel jobs. One that does not run fails with the outcome `cancelled` and `CANCELLED_UNRUN`, unrun. One
        that runs is marked (`cancel_asked`), which wakes `wait_for_cancels`: its worker ends it."""
        ...

    async def cancels(self, claims: Sequence[Claim]) -> list[bool]:
        """Which of these jobs are marked as to be cancelled. A read; False for a stale claim."""
        ...

    async def wait_for_cancels(self, timeout_ms: int) -> bool:
        """Wait until a running job may have been marked, or the time is over (False). A hint only: ask after."""
        ...

    async def promote(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        """Make delayed jobs ready now, at the place that this instant gives them. False where not delayed or parked."""
        ...

    async def delete(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        """Delete jobs with their logs, and with the children of a flow, in any state but active: False for these, for
        one with children of which one runs, and for what is not there."""
        ...

    async def purge(self, queue: str, states: Sequence[JobState], limit: int = 1_000) -> int:
        """Delete jobs of a queue in these states, never active ones, in the order of their enqueueing, at most `limit`.
        Where there are more than 100, a store may go state by state, and in several steps. Returns how many."""
        ...

    async def prune(self, rules: Sequence[PruneRule], limit: int = 1_000) -> int:
        """Delete finished jobs by the rules, with their logs, at most `limit`. Returns how many. Also deletes what has
        expired of the store's own (keys, locks, unique windows, starts that no rate counts, notes of old calls): a
        store may leave that for another call, at most a minute, where there are as many jobs as `limit`.

        It may do so in several steps, others' between them. What is left for it after a failure the next call finds."""
        ...

    async def wait(self, queues: Sequence[str], timeout_ms: int) -> bool:
        """Wait until one of the queues may have something new, or the time is over (False). A hint only: poll after."""
        ...
