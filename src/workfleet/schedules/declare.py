"""`@schedule`: it checks and records when a function is due, and gives the plain function back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import Any, TypeVar, Unpack, cast, overload

from workfleet.model.bounds import local_date
from workfleet.model.checks import instant_ms, run_overrides, without_functions
from workfleet.model.declared import bare_decorator, mark, marked, unwrap
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.model.missed import missed_of
from workfleet.model.options import JobOptions, ScheduleOptions
from workfleet.model.setting import Setting
from workfleet.model.timing import Timing, timing

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class QueueTarget:
    """Where a scheduled function's return value goes as a payload: the old form of `return [NewJob]`."""

    queue: str | None
    job: str | None
    options: JobOptions


@dataclass(frozen=True)
class ScheduleSpec:
    """What `@schedule` recorded. When it is due is kept as written, because zone and defaults come from the module."""

    name: str | None
    cron: str | Setting | None
    every: DurationLike | Setting | None
    at: datetime | None
    options: ScheduleOptions
    target: QueueTarget | None = None
    start_delay: DurationLike | None = None
    per_process: bool = False


@overload
def schedule(
    name: str | None = None, /, *, cron: str | Setting, **options: Unpack[ScheduleOptions]
) -> Callable[[F], F]: ...
@overload
def schedule(
    name: str | None = None, /, *, every: DurationLike | Setting, **options: Unpack[ScheduleOptions]
) -> Callable[[F], F]: ...
@overload
def schedule(name: str | None = None, /, *, at: datetime, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]: ...
@overload
def schedule(name: str | None = None, /, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]: ...
def schedule(
    name: str | None = None,
    /,
    *,
    cron: str | Setting | None = None,
    every: DurationLike | Setting | None = None,
    at: datetime | None = None,
    **options: Unpack[ScheduleOptions],
) -> Callable[[F], F]:
    """Run a function or method by the clock: `cron`, `every` or `at`, or none of them (only `trigger` and
    `run_on_start` run it). All its parameters are injected; `job: Job[None]` may be the first.

    Returned `NewJob`s, one or a list, are enqueued in the step that settles the run. Raises TypeError and ValueError
    for what cannot be right, at once."""
    if name is not None and not isinstance(name, str):
        raise TypeError(bare_decorator("schedule", name))
    spec = ScheduleSpec(name, cron, every, at, options)
    return recorder(spec)


def recorder(spec: ScheduleSpec) -> Callable[[F], F]:
    """The decorator of a checked declaration."""
    check_schedule(spec)

    def record(fn: F) -> F:
        plain: Any = unwrap(fn)
        if marked(plain, ScheduleSpec) is not None:
            raise TypeError(f"{plain.__qualname__} has two schedules; give each one a function of its own")
        mark(plain, spec)
        return cast(F, plain)

    return record


def check_schedule(spec: ScheduleSpec) -> None:
    """Raise for contradictions, unknown options and expressions that cannot be right."""
    if sum(given is not None for given in (spec.cron, spec.every, spec.at)) > 1:
        raise TypeError("give one of cron=, every= and at=, or none for a schedule that only `trigger` runs")
    for name in spec.options:
        if name not in ScheduleOptions.__optional_keys__:
            raise TypeError(
                f"schedule: unknown option {name!r}; there are {', '.join(sorted(ScheduleOptions.__optional_keys__))}"
            )
    if spec.name is not None and not spec.name.strip():
        raise ValueError("a schedule's name cannot be empty")
    if spec.at is not None:
        instant_ms(spec.at)
    check_options(without_functions(spec.options))
    if not any(isinstance(value, Setting) for value in (spec.cron, spec.every)):
        # The zone may still come from the module, so the expression is checked in UTC here.
        timing_of(spec, name=spec.name or "schedule", default_timezone="UTC")


def check_options(options: ScheduleOptions) -> None:
    """Raise ValueError for values that no schedule can have."""
    run_overrides(options)
    jitter = options.get("jitter")
    if jitter is not None:
        duration_ms(jitter)
    expires_ms(options.get("expires"))
    if iscoroutinefunction(options.get("skip_on")):
        raise ValueError("skip_on: it is a plain function of a date, not an async one")
    missed_of(options.get("missed", "once"))
    for name, words in _WORDS.items():
        value = options.get(name, words[0])
        if value not in words:
            raise ValueError(f"{name}={value!r}: it is one of {', '.join(map(repr, words))}")


def expires_ms(expires: DurationLike | None) -> int | None:
    """How long a run may wait to be started; None: as long as it takes. Raises ValueError."""
    after_ms = None if expires is None else duration_ms(expires)
    if after_ms == 0:
        raise ValueError(f"expires={expires!r}: no run would ever be started; leave it out for runs that do not expire")
    return after_ms


_WORDS: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        "overlap": ("skip", "queue_one", "allow", "cancel_running"),
        "run_on_start": (False, True, "process", "release"),
        "on_timeout": ("kill", "abandon"),
    }
)


def timing_of(spec: ScheduleSpec, *, name: str, default_timezone: str) -> Timing:
    """The timing value of a declaration, its zone taken from the module where it names none."""
    assert not isinstance(spec.cron, Setting), "settings are resolved before"
    assert not isinstance(spec.every, Setting), "settings are resolved before"
    return timing_by(spec.options, name, spec.cron, spec.every, spec.at, default_timezone=default_timezone)


def timing_by(
    options: ScheduleOptions,
    name: str,
    cron: str | None,
    every: DurationLike | None,
    at: datetime | None,
    *,
    default_timezone: str,
) -> Timing:
    """The timing value of what was said, whether in code or at run time."""
    return timing(
        cron=cron,
        every=every,
        at=at,
        offset=options.get("offset"),
        timezone=options.get("timezone", default_timezone),
        dst_gap=options.get("dst_gap", "shift"),
        dst_overlap=options.get("dst_overlap", "first"),
        name=name,
        start=options.get("start"),
        end=options.get("end"),
        skip_on=options.get("skip_on"),
    )


def skips_of(options: ScheduleOptions, timezone: str) -> Callable[[int], bool] | None:
    """Which slots a function as `skip_on` leaves out, by their local date; None without a function."""
    asked = options.get("skip_on")
    if not callable(asked):
        return None
    says: Callable[[date], bool] = asked
    return lambda slot_ms: bool(says(local_date(slot_ms, timezone)))
