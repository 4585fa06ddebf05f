"""The keyword options that users write, as TypedDicts: left out inherits, None switches off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from .bounds import SkipOn
from .durations import DurationLike
from .missed import Missed
from .policy import BackoffLike, OwnBackoff
from .retention import Retention
from .schedules import Overlap
from .setting import Setting
from .unique import Unique

ExceptionLike = type[BaseException] | str
"""An exception's class, or its qualified name: "ValueError", "shop.errors.Declined"."""


class _Limits(TypedDict, total=False):
    """How often, and how long."""

    attempts: int
    """How often it is tried at the most, the first run included."""
    timeout: DurationLike | None
    """A run that takes longer is ended and counts as a failed attempt."""


class RunOptions(_Limits, total=False):
    """What a job, or a schedule that is added at run time, may say of its runs: what can be stored."""

    backoff: BackoffLike | None
    """The wait between attempts: a policy, or a duration for a fixed wait."""
    retry: Mapping[ExceptionLike, BackoffLike | None] | None
    """Per exception, the nearest class of it: the wait before the next attempt, or None for no further one."""


class CodeRunOptions(_Limits, total=False):
    """What code says of the runs of a function: it may give a function of its own as the backoff."""

    backoff: BackoffLike | OwnBackoff | None
    """The wait between attempts: a policy, a duration for a fixed wait, or a function that says it."""
    retry: Mapping[ExceptionLike, BackoffLike | OwnBackoff | None] | None
    """Per exception, the nearest class of it: the wait before the next attempt, or None for no further one."""


class HandlerOptions(CodeRunOptions, total=False):
    """What a handler may say."""

    queue: str
    pool: type[Any] | str | None
    """Run the handler in a process of this pool."""
    on_timeout: Literal["kill", "abandon"]
    """For handlers that run in a thread, which cannot be ended: "abandon" fails the job and discards a late result."""


class JobOptions(RunOptions, total=False):
    """What one job may say at enqueue."""

    queue: str
    id: str
    delay: DurationLike
    at: datetime
    priority: int
    """0 first, then lower numbers sooner, up to 2^21-1."""
    lifo: bool
    unique: str | Unique
    """A key template such as "{data.sha}": at most one unfinished job has the key. `Unique` says more."""
    group: str
    """A template such as "{data.tenant}", or a name: groups of a queue take turns, and have limits of their own."""
    expires: DurationLike | datetime
    """It is not started that long after it was enqueued, or at that instant, or later."""
    retention: Retention
    """How long it is kept after it has finished."""
    tags: Sequence[str]
    metadata: Mapping[str, str]


class ScheduleOptions(CodeRunOptions, total=False):
    """What a schedule may say, beside when it is due."""

    description: str
    enabled: bool | Setting
    timezone: str
    dst_gap: Literal["shift", "skip"]
    dst_overlap: Literal["first", "second", "both"]
    offset: DurationLike
    start: datetime
    """Slots count from this instant on."""
    end: datetime
    """Slots count before this instant."""
    skip_on: SkipOn
    """Local dates without slots, or a function that says of a date whether its slots are skipped."""
    jitter: DurationLike | None
    expires: DurationLike | None
    """A run that has waited this long, because others hold all slots say, is not started any more but `expired`."""
    overlap: Overlap
    """What a slot does while a run is unfinished: nothing; wait for its end, one at a time; run beside it; or have it
    cancelled and wait for its end."""
    missed: Missed
    """Which slots run that were not fired in time: the last one, none, or the last few (`catch_up`)."""
    run_on_start: bool | Literal["process", "release"]
    pool: type[Any] | str | None
    on_timeout: Literal["kill", "abandon"]
