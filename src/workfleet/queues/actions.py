"""What can be done to stored jobs: retry, cancel, delete, promote; by id, or to all that match a query.

It knows which states each is about and what the store's answers mean. It must not know who asks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from workfleet.errors import NotFound, UsageError
from workfleet.model.jobs import FINISHED, JobRecord, JobState
from workfleet.ports.jobs import JobQuery, JobStore

_T = TypeVar("_T")

PAGE = 1_000
_LONGEST_SHOWN = 60
_MOST_SHOWN = 20

Verb = Literal["retry", "cancel", "delete", "promote"]
Result = Literal["retried", "cancelled", "asked", "deleted", "promoted", "finished", "missing", "refused"]


class Acted(Struct, frozen=True):
    """What became of one job. `asked`: it runs, and its worker was told to end it. `finished`: it had ended before, so
    there was nothing to cancel. `missing` and `refused`: it was deleted or changed meanwhile; `reason` says more."""

    id: str
    result: Result
    reason: str = ""

    @property
    def done(self) -> bool:
        """Whether something was done to it."""
        return self.result not in ("finished", "missing", "refused")


@dataclass(frozen=True)
class Action:
    """One thing that can be done to jobs. `states` are those of the jobs that it changes."""

    verb: Verb
    states: tuple[JobState, ...]
    only: str
    """What is said of a job in another state."""
    refused: str
    """Why the store may refuse a job in the right state."""
    apply: Callable[[JobStore, Sequence[str], str], Awaitable[list[Result]]]
    """To jobs of one queue."""
    others_are_refused: bool = True
    """Whether a job in another state is a mistake of the caller."""


async def act(jobs: JobStore, action: Action, ids: Sequence[str], *, queue: str | None = None) -> list[Acted]:
    """Do it to these jobs, each once, a thousand of a queue in one step. Raises as `check`; also `UsageError` when the
    store refused every one."""
    ids = list(dict.fromkeys(ids))
    found = await check(jobs, action, ids, queue=queue)
    results = dict[str, Result]()
    for page in _pages(found):
        results |= {job.id: result for job, result in await _applied(jobs, action, page)}
    acted = [Acted(job_id, results[job_id], _why(action, results[job_id])) for job_id in ids]
    if acted and all(one.result in ("missing", "refused") for one in acted):
        listed = _listed([f"job {_shown(one.id)}: {one.reason}" for one in acted])
        raise UsageError(f"cannot {action.verb} {listed}")
    return acted


async def check(jobs: JobStore, action: Action, ids: Sequence[str], *, queue: str | None = None) -> list[JobRecord]:
    """The jobs. Raises `NotFound` and `UsageError` that name every id to which it cannot be done."""
    records = [record for page in _pages(list(ids)) for record in await known(jobs, page, queue=queue)]
    missing = [_shown(job_id) for job_id, record in zip(ids, records, strict=True) if record is None]
    if missing:
        raise NotFound(f"there is no job {_listed(missing)}: check the id, or its retention is over. Nothing was done")
    others = [job for job in records if job is not None and not applies(action, job)]
    if others and action.others_are_refused:
        named = _listed([f"job {_shown(job.id)} is {_state(job)}" for job in others])
        raise UsageError(f"{named}: {action.only}. Nothing was done")
    return [job for job in records if job is not None]


async def act_on_all(jobs: JobStore, action: Action, query: JobQuery) -> int:
    """Do it to every job that matches, in pages. Each job is met once, however its state changes meanwhile. Returns to
    how many it was done."""
    done = 0
    async for page in matching(jobs, action, query):
        done += sum(Acted(job.id, result).done for job, result in await _applied(jobs, action, page))
    return done


def narrowed(action: Action, query: JobQuery) -> JobQuery:
    """The query, of those states only that the action is about. Raises `UsageError` when none of its states is."""
    states = tuple(state for state in query.states or action.states if state in action.states)
    if not states:
        asked = ", ".join(query.states or ())
        raise UsageError(f"cannot {action.verb} {asked} jobs: {action.only}")
    return replace(query, states=states)


async def matching(jobs: JobStore, action: Action, query: JobQuery) -> AsyncIterator[list[JobRecord]]:
    """Pages of the jobs that match and that the action changes."""
    async for page in pages(jobs, narrowed(action, query)):
        yield [job for job in page if applies(action, job)]


async def pages(jobs: JobStore, query: JobQuery) -> AsyncIterator[list[JobRecord]]:
    """All jobs that match, newest first, a page at a time, each once: the next page begins behind the last job's place
    in the order, which never changes, so that jobs that come, go or change meanwhile disturb nothing."""
    query = replace(query, limit=PAGE, offset=0)
    while page := await jobs.find(query):
        yield page
        if len(page) < PAGE:
            return
        query = replace(query, after=(page[-1].created_ms, page[-1].id))


async def known(jobs: JobStore, ids: Sequence[str], *, queue: str | None = None) -> list[JobRecord | None]:
    """Jobs by id. An id that is no Unicode text, as the command line may give one, is no job's."""
    given = [job_id for job_id in ids if _is_text(job_id)]
    found = dict(zip(given, await jobs.get(given, queue=queue), strict=True))
    return [found.get(job_id) for job_id in ids]


def applies(action: Action, job: JobRecord) -> bool:
    """Whether the job is in a state that the action changes."""
    return job.state in action.states and not (action is PROMOTE and job.parked)


def no_job(job_id: str) -> NotFound:
    """What is said of an id that no job has."""
    return NotFound(f"there is no job '{_shown(job_id)}': check the id, or its retention is over")


async def _retry(jobs: JobStore, ids: Sequence[str], queue: str) -> list[Result]:
    return ["retried" if done else "refused" for done in await jobs.retry(ids, queue=queue)]


async def _cancel(jobs: JobStore, ids: Sequence[str], queue: str) -> list[Result]:
    return [*await jobs.cancel(ids, queue=queue)]


async def _delete(jobs: JobStore, ids: Sequence[str], queue: str) -> list[Result]:
    return ["deleted" if done else "refused" for done in await jobs.delete(ids, queue=queue)]


async def _promote(jobs: JobStore, ids: Sequence[str], queue: str) -> list[Result]:
    return ["promoted" if done else "refused" for done in await jobs.promote(ids, queue=queue)]


RETRY = Action(
    "retry",
    (JobState.FAILED,),
    "only a failed job can be retried",
    "another job holds its unique key by now, or it has not failed any more",
    _retry,
)
CANCEL = Action(
    "cancel",
    tuple(state for state in JobState if state not in FINISHED),
    "only a job that has not finished can be cancelled",
    "",
    _cancel,
    others_are_refused=False,
)
DELETE = Action(
    "delete",
    tuple(state for state in JobState if state is not JobState.ACTIVE),
    "a job that runs cannot be deleted: cancel it first",
    "it runs by now, or one of its children does, or it is gone",
    _delete,
)
PROMOTE = Action(
    "promote",
    (JobState.DELAYED,),
    "only a delayed job that waits for its time can be promoted",
    "it is not delayed any more",
    _promote,
)


def _why(action: Action, result: Result) -> str:
    if result == "missing":
        return "it is gone by now"
    return action.refused if result == "refused" else ""


def _state(job: JobRecord) -> str:
    return "parked behind the job that runs under its unique key" if job.parked else job.state.value


def _listed(items: list[str]) -> str:
    more = len(items) - _MOST_SHOWN
    return ", ".join(items[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _shown(job_id: str) -> str:
    shown = job_id if job_id.isprintable() else ascii(job_id)[1:-1]
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def _is_text(job_id: str) -> bool:
    try:
        job_id.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pages(items: list[_T]) -> Iterator[list[_T]]:
    return (items[start : start + PAGE] for start in range(0, len(items), PAGE))


async def _applied(jobs: JobStore, action: Action, page: list[JobRecord]) -> list[tuple[JobRecord, Result]]:
    """What became of each, queue by queue: BullMQ counts ids in each of its own."""
    results: list[tuple[JobRecord, Result]] = []
    for queue in dict.fromkeys(job.queue for job in page):
        some = [job for job in page if job.queue == queue]
        results += zip(some, await action.apply(jobs, [job.id for job in some], queue), strict=True)
    return results
