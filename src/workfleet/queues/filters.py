"""Which jobs: the filters that listings and actions on many jobs share, and the query that they come to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from workfleet.errors import UsageError
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.model.jobs import JobState
from workfleet.ports.jobs import JobQuery

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class JobFilter(TypedDict, total=False):
    """Which jobs. What is left out, or None, does not filter."""

    queue: str | None
    states: Sequence[JobState] | None
    name: str | None
    tag: str | None
    group: str | None
    older_than: DurationLike | datetime | None
    """Created longer ago than this, such as "1h", or before this instant."""
    newer_than: DurationLike | datetime | None
    """Created within this, such as "1d", or at this instant or later."""
    text: str | None
    """In the payload's JSON, or in the message or type of the failure; ASCII letters match in either case."""
    housekeeping: bool | None
    """Whether the product's own jobs (heartbeats, probes) are meant too. None: only where `queue` names theirs."""


def query_of(filters: JobFilter, now_ms: int) -> JobQuery:
    """The query of these filters at this instant of the store's clock. Raises `UsageError`."""
    for name in filters:
        if name not in JobFilter.__optional_keys__:
            raise UsageError(f"unknown filter {name!r}; there are {', '.join(sorted(JobFilter.__optional_keys__))}")
    queue, housekeeping = _text("queue", filters.get("queue")), filters.get("housekeeping")
    return JobQuery(
        queue=queue,
        name=_text("name", filters.get("name")),
        tag=_text("tag", filters.get("tag")),
        group=_text("group", filters.get("group")),
        text=_text("text", filters.get("text")),
        states=_states(filters.get("states")),
        created_from_ms=_since_ms("newer_than", filters.get("newer_than"), now_ms),
        created_before_ms=_since_ms("older_than", filters.get("older_than"), now_ms),
        housekeeping=queue is not None if housekeeping is None else housekeeping,
    )


def _states(states: Sequence[JobState] | None) -> tuple[JobState, ...] | None:
    if states is None:
        return None
    try:
        return tuple(JobState(state) for state in ((states,) if isinstance(states, str) else states)) or None
    except ValueError as error:
        raise UsageError(f"states: {error}; there are {', '.join(JobState)}") from None


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r}: it is text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name}={value!r}: it is no Unicode text, which no job has") from None
    return value


def _since_ms(name: str, value: DurationLike | datetime | None, now_ms: int) -> int | None:
    if value is None:
        return None
    try:
        if isinstance(value, datetime):
            if value.tzinfo is None:
                raise ValueError(f"{value.isoformat()} has no time zone: write {value.isoformat()}Z for UTC")
            return max((value - _EPOCH) // timedelta(milliseconds=1), 0)
        return max(now_ms - duration_ms(value), 0)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
