"""Each option as users write it, checked and turned into what is stored. Every ValueError says what is wrong with it.

This file must not know payloads: keys and groups, which are filled from them, are read in enqueueing.py."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from .durations import duration_ms
from .jobs import MAX_PRIORITY, Keep, RunOverrides, UniqueRule
from .options import CodeRunOptions, JobOptions, RunOptions
from .policy import Backoff, backoff_of, exception_name
from .retention import Retention
from .unique import Unique

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_INSTANT_MS = 253_402_300_799_999  # 9999-12-31, the last day that datetime knows
_MOST_ATTEMPTS = 1_000_000
_LONGEST_SHOWN = 60
_LARGEST_LABELS = 64 * 1024
_CLASS_NAME = re.compile(r"[^\W\d]\w*(\.(<locals>|[^\W\d]\w*))*")
_CONTROL = tuple(f"workfleet.errors.{name}" for name in ("Retry", "Snooze", "Cancel", "Fail"))
_DEFAULT_UNIQUE = UniqueRule()


def run_overrides(options: RunOptions | CodeRunOptions) -> RunOverrides:
    """What options say about runs, with what they leave out unset. A function as a backoff is refused: see
    `app/backoffs.py`, which names those of code before."""
    said: Mapping[str, Any] = options
    attempts: int | UnsetType = options.get("attempts", UNSET)
    if attempts is not UNSET and not (_whole(attempts, 1) and attempts <= _MOST_ATTEMPTS):
        raise ValueError(f"attempts={attempts!r}: it is the number of tries, 1 to {_MOST_ATTEMPTS:,}")
    timeout = options.get("timeout", UNSET)
    timeout_ms = timeout if timeout is UNSET or timeout is None else duration_ms(timeout)
    if timeout_ms == 0:
        raise ValueError(f"timeout={timeout!r}: no run ends in no time; None is for no timeout")
    return RunOverrides(
        attempts=attempts,
        backoff=backoff_of(said["backoff"]) if "backoff" in said else UNSET,
        timeout_ms=timeout_ms,
        rules=retry_rules(said["retry"]) if "retry" in said else UNSET,
    )


def without_functions(options: Any) -> Any:
    """The options of code without its own backoffs, to check the rest before the application gives these names."""
    kept = {name: value for name, value in options.items() if name != "backoff" or not callable(value)}
    if isinstance(kept.get("retry"), Mapping):
        kept["retry"] = {kind: None if callable(wait) else wait for kind, wait in kept["retry"].items()}
    return kept


def retry_rules(retry: object) -> dict[str, Backoff | None]:
    """Rules by exception's name, from classes and names; None: no rules."""
    if retry is None:
        return {}
    if not isinstance(retry, Mapping):
        raise ValueError(f"retry={retry!r}: it is waits by exception, such as {{ConnectionError: '10s'}}")
    rules: dict[str, Backoff | None] = {}
    for kind, wait in retry.items():
        name = _exception(kind)
        if name in rules:
            raise ValueError(f"retry: {name} is there twice")
        rules[name] = None if wait is None else backoff_of(wait)
    return rules


def _exception(kind: object) -> str:
    if isinstance(kind, type) and issubclass(kind, BaseException):
        name = exception_name(kind)
    elif isinstance(kind, str) and _CLASS_NAME.fullmatch(kind):
        name = kind.removeprefix("builtins.")
        if "." not in name and not _is_builtin(name):
            raise ValueError(f"retry: there is no {name!r} in Python; say where it is, such as 'shop.errors.Declined'")
    else:
        raise ValueError(
            f"retry: {kind!r} is neither an exception's class nor its name, such as 'shop.errors.Declined'"
        )
    if name in _CONTROL:
        raise ValueError(f"retry: {name} says itself what follows, so no rule can")
    return name


def _is_builtin(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def instant_ms(at: object, name: str = "at") -> int:
    """An aware datetime in milliseconds. Raises ValueError for a naive one, whose instant nobody knows."""
    if not isinstance(at, datetime):
        raise ValueError(f"{name}={at!r}: it is a datetime with a time zone, such as datetime.now(UTC)")
    if at.tzinfo is None:
        raise ValueError(f"{name}={at.isoformat()}: give it a time zone, such as datetime.now(UTC)")
    return min((at - _EPOCH) // timedelta(milliseconds=1), _LAST_INSTANT_MS)


def times(options: JobOptions) -> tuple[int, int, int | None, int | None]:
    """Delay, instant before which it is not due, and after which time or at which instant it is expired."""
    if "delay" in options and "at" in options:
        raise ValueError("give delay= or at=, not both")
    delay_ms = duration_ms(options["delay"]) if "delay" in options else 0
    due_ms = instant_ms(options["at"]) if "at" in options else 0
    if "expires" not in options:
        return delay_ms, due_ms, None, None
    expires = options["expires"]
    if isinstance(expires, datetime):
        expires_ms = instant_ms(expires, "expires")
        if expires_ms <= due_ms:
            raise ValueError("expires= is not after at=: it would never be started")
        return delay_ms, due_ms, None, expires_ms
    after_ms = duration_ms(expires)
    if after_ms == 0:
        raise ValueError(f"expires={expires!r}: it would never be started; leave it out for a job that does not expire")
    if after_ms <= delay_ms:
        raise ValueError(f"expires={expires!r} is not after delay={options['delay']!r}: it would never be started")
    return delay_ms, due_ms, after_ms, None


def unique_rule(options: JobOptions) -> UniqueRule:
    """How long the unique key is held. The key itself is a template, filled elsewhere."""
    unique: object = options["unique"]
    if isinstance(unique, str):
        return _DEFAULT_UNIQUE
    if not isinstance(unique, Unique):
        raise ValueError(f"unique={unique!r}: it is a key such as '{{data.sha}}', or Unique('{{data.sha}}', until=…)")
    if unique.on_conflict == "debounce" and "delay" not in options:
        raise ValueError("on_conflict='debounce' starts the delay anew: give delay=, too")
    return unique.rule


def kept(retention: object) -> Keep:
    """How long the finished job is kept."""
    if not isinstance(retention, Retention):
        raise ValueError(f"retention={retention!r}: it is Retention(completed='1h', failed='90d', …)")
    return retention.keep


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: it is True or False")
    return value


def texts(name: str, values: object) -> tuple[str, ...]:
    """A list of texts."""
    if isinstance(values, str):
        raise ValueError(f"{name}={values!r}: it is a list of texts, such as [{values!r}]")
    if not isinstance(values, Iterable):
        raise ValueError(f"{name}={values!r}: it is a list of texts")
    return tuple(_plain(name, value) for value in values)


def texts_by_name(name: str, values: object) -> dict[str, str]:
    """Texts by name."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{name}={values!r}: it is texts by name")
    return {_plain(name, key): _plain(name, value) for key, value in values.items()}


def labels_fit(tags: Sequence[str], metadata: Mapping[str, str]) -> None:
    """They go with every claim and into every listing, which a payload's limit does not know. Raises ValueError."""
    size = len(msgspec.json.encode((tags, metadata)))
    if size > _LARGEST_LABELS:
        advice = "what is larger belongs into the payload"
        raise ValueError(
            f"tags and metadata have {size:,} bytes of JSON, together at most {_LARGEST_LABELS:,}: {advice}"
        )


def _plain(name: str, value: object) -> str:
    """Text that any store and any reader can keep. A `str()` of anything else would be a guess."""
    if not isinstance(value, str):
        raise ValueError(f"{name}: {value!r} is not text")
    if not value.isprintable():
        raise ValueError(f"{name}: {value!r} is not printable text")
    return value


def priority(value: int) -> int:
    """0 to 2^21-1."""
    if not _whole(value, 0) or value > MAX_PRIORITY:
        raise ValueError(f"priority={value!r}: 0 to {MAX_PRIORITY}, 0 first")
    return value


def job_id(value: str | None) -> str | None:
    """A job's own id."""
    if value is None:
        return None
    # What is printable can be encoded, too: a lone surrogate is not.
    if not value.isprintable() or not 0 < len(value.encode()) <= 255 or ":" in value or value == "wf":
        shown = repr(value) if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]!r}…"
        raise ValueError(f"id={shown}: 1 to 255 bytes of printable text without a colon, and not 'wf'")
    return value


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
