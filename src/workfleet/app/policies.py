"""Which options apply: what the code says, with what an operator set by name put over it, with the module's below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import UNSET

from workfleet.errors import ConfigError, Problem
from workfleet.model.checks import run_overrides
from workfleet.model.durations import duration_ms
from workfleet.model.options import ScheduleOptions
from workfleet.model.outcome import RunPolicy
from workfleet.model.policy import DEFAULT_BACKOFF, Backoff, backoff_of
from workfleet.model.setting import Setting
from workfleet.settings.core import JobOverride
from workfleet.settings.sections import DefaultJobOptions


def milliseconds(span: timedelta) -> int:
    """A span of settings in milliseconds."""
    return span // timedelta(milliseconds=1)


def resolved(options: Any, resolve: Callable[[Setting], Any]) -> Any:
    """Options with every `setting("path")` replaced by its value."""
    return {name: resolve(value) if isinstance(value, Setting) else value for name, value in options.items()}


def run_policy(
    where: str,
    options: Mapping[str, Any],
    override: JobOverride | None,
    *,
    attempts: int = 3,
    backoff: Backoff = DEFAULT_BACKOFF,
    timeout_ms: int | None = None,
    max_crashes: int,
) -> RunPolicy:
    """The policy of a handler or schedule, whose own backoffs have been named. Raises `ConfigError` for an option that
    makes no sense."""
    said: dict[str, Any] = dict(options)
    if override is not None:
        said |= {name: value for name, value in override.given().items() if name in ("attempts", "timeout")}
    try:
        own = run_overrides(said)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ConfigError(Problem(where, str(error))) from None
    return RunPolicy(
        attempts=own.attempts if isinstance(own.attempts, int) else attempts,
        backoff=_backoff(said, backoff),
        timeout_ms=own.timeout_ms if "timeout" in said else timeout_ms,  # type: ignore[arg-type]
        max_crashes=max_crashes,
        rules={} if own.rules is UNSET else own.rules,
    )


def _backoff(said: dict[str, Any], inherited: Backoff) -> Backoff:
    return backoff_of(said["backoff"]) if "backoff" in said else inherited


def schedule_defaults(defaults: DefaultJobOptions) -> dict[str, Any]:
    """The module's defaults for scheduled runs, as arguments of `run_policy`."""
    return {
        "attempts": defaults.retries + 1,
        "backoff": backoff_of(defaults.retry_delay),
        "timeout_ms": None if defaults.timeout is None else milliseconds(defaults.timeout),
    }


def jitter_ms(options: ScheduleOptions, override: JobOverride | None, defaults: DefaultJobOptions) -> int:
    """The largest jitter of a schedule; 0: none."""
    said = override.given() if override is not None else {}
    value = said["jitter"] if "jitter" in said else options.get("jitter", defaults.jitter)
    return 0 if value is None else duration_ms(value)
