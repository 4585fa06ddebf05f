"""`Queue` and `Group`: what code says of a queue and of the groups on it, as users write it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypedDict

from .durations import MAX_DURATION_MS, SizeLike, duration_ms, format_duration, format_size, size_bytes
from .limits import GroupLimits, QueueLimits, Rate
from .names import group_name, queue_name

RateLike = Rate | str
DEFAULT_PAYLOAD = 2**20
"""Bytes of JSON that a payload, a result or a progress may have, unless somebody says otherwise."""
LARGEST_PAYLOAD = 64 * 2**20

_RATE = re.compile(r"\s*([0-9]{1,9})\s*/\s*(\S.*)", re.DOTALL)
_BARE_UNIT = re.compile(r"(ms|[smhdw])\s*")
_MOST = 1_000_000
_NO_GROUPS: Mapping[str, Group] = MappingProxyType({})


def rate_of(value: RateLike) -> Rate:
    """A rate from what a user may write: "100/1m" (or "100/m"), or a `Rate`. Raises ValueError."""
    if isinstance(value, Rate):
        limit, per_ms, shown = value.limit, value.per_ms, f"Rate({value.limit!r}, {value.per_ms!r})"
    else:
        (limit, per_ms), shown = _parsed_rate(value), repr(value)
    if not _whole(limit, 1) or limit > _MOST:
        raise ValueError(f"the rate {shown} lets {limit} start: it is 1 to {_MOST:,}")
    if not _whole(per_ms, 1) or per_ms > MAX_DURATION_MS:
        raise ValueError(f"the rate {shown} has no duration: it is 1 ms or more")
    return Rate(limit, per_ms)


def _parsed_rate(text: object) -> tuple[int, int]:
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"{text!r} is not a rate: write a number of starts and a duration, such as '100/1m'")
    per = found.group(2)
    try:
        return int(found.group(1)), duration_ms("1" + per if _BARE_UNIT.fullmatch(per) else per)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a rate such as '100/1m': {error}") from None


def rate_text(rate: Rate) -> str:
    """Text for a rate that `rate_of` reads back: "100/1m"."""
    return f"{rate.limit}/{format_duration(rate.per_ms)}"


def payload_bytes(name: str, value: SizeLike) -> int:
    """A limit of payloads in bytes. Raises ValueError."""
    size = size_bytes(value)
    if not 1 <= size <= LARGEST_PAYLOAD:
        raise ValueError(f"{name}={value!r}: it is 1B to {format_size(LARGEST_PAYLOAD)}")
    return size


@dataclass(frozen=True)
class Group:
    """What holds for a group of a queue's jobs, across the fleet: how many run at once, how many start in a time
    ("10/1s"), and how many of them start in one turn. Raises ValueError for what cannot be right."""

    concurrency: int | None = None
    rate_limit: RateLike | None = None
    weight: int = 1

    def __post_init__(self) -> None:
        _check_counts(self, "concurrency", "weight")
        if self.rate_limit is not None:
            rate_of(self.rate_limit)

    @property
    def limits(self) -> GroupLimits:
        """The limits as the store keeps them."""
        return GroupLimits(self.weight, self.concurrency, None if self.rate_limit is None else rate_of(self.rate_limit))


class QueueOptions(TypedDict, total=False):
    """What code may say of a queue. Of a worker process: `concurrency`, `weight`. Of the fleet: all others."""

    concurrency: int | None
    """How many of its jobs one worker process runs at once."""
    weight: int | None
    """Its share of a worker that runs at most `WORKER_MAX_JOBS` jobs at once."""
    fleet_concurrency: int | None
    """How many of its jobs run at once, wherever."""
    rate_limit: RateLike | None
    """How many of its jobs start in a time, wherever."""
    group: Group | None
    """What holds for each of its groups."""
    groups: Mapping[str, Group] | None
    """What holds instead for some groups, by name."""
    max_payload: SizeLike | None
    """How large a payload, a result and a progress may be."""


@dataclass(frozen=True)
class Queue:
    """`Module("mail", queues=[Queue("emails", rate_limit="100/1m")])`: what `@queue` says, for a queue without a class
    of handlers. What is left out is said elsewhere, or not at all.

    Raises ValueError for what cannot be right, with the queue's name."""

    name: str
    concurrency: int | None = None
    weight: int | None = None
    fleet_concurrency: int | None = None
    rate_limit: RateLike | None = None
    group: Group | None = None
    groups: Mapping[str, Group] | None = field(default=None, hash=False)
    max_payload: SizeLike | None = None

    def __post_init__(self) -> None:
        queue_name(self.name)
        try:
            _check_counts(self, "concurrency", "weight", "fleet_concurrency")
            if self.rate_limit is not None:
                rate_of(self.rate_limit)
            if self.max_payload is not None:
                payload_bytes("max_payload", self.max_payload)
            _check_groups(self.group, self.groups)
        except ValueError as error:
            raise ValueError(f"queue {self.name!r}: {error}") from None

    def said(self) -> dict[str, Any]:
        """What it says, by option: two that say the same in other words are equal."""
        told: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "name"}
        known = {name: value for name, value in told.items() if value is not None}
        if self.rate_limit is not None:
            known["rate_limit"] = rate_of(self.rate_limit)
        if self.max_payload is not None:
            known["max_payload"] = size_bytes(self.max_payload)
        return known

    @property
    def limits(self) -> QueueLimits:
        """What of it the store keeps, for the whole fleet."""
        return QueueLimits(
            concurrency=self.fleet_concurrency,
            rate=None if self.rate_limit is None else rate_of(self.rate_limit),
            group=GroupLimits() if self.group is None else self.group.limits,
            groups={name: group.limits for name, group in (self.groups or _NO_GROUPS).items()},
        )


def _check_counts(of: object, *names: str) -> None:
    for name in names:
        value = getattr(of, name)
        if value is not None and not (_whole(value, 1) and value <= _MOST):
            raise ValueError(f"{name}={value!r}: it is 1 to {_MOST:,}")


def _check_groups(group: object, groups: object) -> None:
    if group is not None and not isinstance(group, Group):
        raise ValueError(f"group={group!r}: it is what holds for each group, such as Group(concurrency=1)")
    if groups is None:
        return
    if not isinstance(groups, Mapping):
        raise ValueError(f"groups={groups!r}: it is groups by name, such as {{'gold': Group(weight=5)}}")
    for name, each in groups.items():
        group_name(name)
        if not isinstance(each, Group):
            raise ValueError(f"groups: {name!r} is {each!r}, not a Group such as Group(weight=5)")


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
