"""The keyword options that users write, as TypedDicts: left out inherits, None switches off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from .durations import DurationLike
from .policy import BackoffLike
from .setting import Setting


class RunOptions(TypedDict, total=False):
    """How a run behaves."""

    attempts: int
    """How often it is tried at the most, the first run included."""
    backoff: BackoffLike | None
    """The wait between attempts: a policy, or a duration for a fixed wait."""
    timeout: DurationLike | None
    """A run that takes longer is ended and counts as a failed attempt."""


class HandlerOptions(RunOptions, total=False):
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
    unique: str
    """A key template such as "{data.sha}": at most one unfinished job has the key."""
    tags: Sequence[str]
    metadata: Mapping[str, str]


class ScheduleOptions(RunOptions, total=False):
    """What a schedule may say, beside when it is due."""

    description: str
    enabled: bool | Setting
    timezone: str
    dst_gap: Literal["shift", "skip"]
    dst_overlap: Literal["first", "second", "both"]
    offset: DurationLike
    jitter: DurationLike | None
    overlap: Literal["skip", "allow"]
    missed: Literal["once", "skip"]
    run_on_start: bool | Literal["process", "release"]
    pool: type[Any] | str | None
    on_timeout: Literal["kill", "abandon"]
