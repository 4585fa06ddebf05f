"""From a `NewJob`, what a user holds, to a `JobRecord`, what a store keeps: the one place where enqueue options are
read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import UNSET, UnsetType

from .errors import UsageError
from .ids import derived_id, new_id
from .model.durations import duration_ms
from .model.jobs import MAX_PRIORITY, JobRecord, RunOverrides
from .model.jobtypes import JobType, NewJob
from .model.names import queue_name
from .model.options import JobOptions, RunOptions
from .model.policy import backoff_of
from .payloads.codec import Codec
from .payloads.hints import resolved
from .templates import Template

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_INSTANT_MS = 253_402_300_799_999  # 9999-12-31, the last day that datetime knows
_MOST_ATTEMPTS = 1_000_000
_MOST_CODECS = 1_000


class Enqueueing:
    """Turns jobs into records. Codecs are kept per job type, so that a type is compiled once."""

    def __init__(self, default_queue: str, now_ms: Callable[[], int]) -> None:
        self.default_queue = default_queue
        self._now_ms = now_ms
        self.seen: Callable[[NewJob[Any], JobRecord], None] = _ignored
        """Told of every job that becomes a record: for tests."""
        self._codecs: dict[int, tuple[JobType[Any, Any], Codec]] = {}

    def record(self, job: NewJob[Any]) -> JobRecord:
        """The record of a new job. Raises `PayloadRejected` for a payload and `UsageError` for an option that is
        wrong."""
        if not isinstance(job, NewJob):  # type: ignore[redundant-expr,unreachable,unused-ignore]
            raise UsageError(
                f"enqueue takes a job such as WELCOME(Welcome(7)) or Emails.welcome.job(Welcome(7)), not {_shown(job)}"
            )
        kind, options = job.type, job.options
        try:
            queue = options.get("queue") or kind.queue or self.default_queue
            record = self.bare(queue, kind.name, self._codec(kind).encode(job.payload), options)
            record.unique_key = self._unique(job)
        except (ValueError, AttributeError, KeyError) as error:
            raise UsageError(f"job {kind.name!r}: {error}") from None
        self.seen(job, record)
        return record

    def bare(self, queue: str, name: str, payload: bytes, options: JobOptions) -> JobRecord:
        """The record of an encoded payload. Raises ValueError for an option that is wrong."""
        for option in options:
            if option not in JobOptions.__optional_keys__:
                known = ", ".join(sorted(JobOptions.__optional_keys__))
                raise ValueError(f"unknown option {option!r}; there are {known}")
        if "delay" in options and "at" in options:
            raise ValueError("give delay= or at=, not both")
        return JobRecord(
            id=_checked_id(options.get("id")) or new_id(self._now_ms()),
            queue=queue_name(queue),
            name=name,
            payload=payload,
            run=run_overrides(options),
            priority=_priority(options.get("priority", 0)),
            lifo=_flag("lifo", options.get("lifo", False)),
            delay_ms=duration_ms(options["delay"]) if "delay" in options else 0,
            due_ms=instant_ms(options["at"]) if "at" in options else 0,
            tags=_tags(options.get("tags", ())),
            metadata=_metadata(options.get("metadata", {})),
        )

    def follow_up(self, job: NewJob[Any], run: JobRecord, index: int) -> JobRecord:
        """The record of a job that a run returned. Without an id of its own it gets one that derives from the run."""
        record = self.record(job)
        if "id" not in job.options:
            record.id = derived_id(run.id, index)
        return record

    def _codec(self, kind: JobType[Any, Any]) -> Codec:
        known = self._codecs.get(id(kind))
        if known is None:
            # The type is kept beside its codec so that its id() cannot be given to another one.
            if len(self._codecs) >= _MOST_CODECS:
                self._codecs.clear()  # somebody makes job types as he goes: they must not take the memory
            known = (kind, Codec(payload_type(kind), f"payload of {kind.name}"))
            self._codecs[id(kind)] = known
        return known[1]

    def _unique(self, job: NewJob[Any]) -> str | None:
        if "unique" not in job.options:
            return None
        template = Template.parse(job.options["unique"], ("data", "name"), constant=False)
        return template.fill({"data": job.payload, "name": job.type.name})


def _ignored(_job: NewJob[Any], _record: JobRecord) -> None:
    """Nobody looks."""


def payload_type(kind: JobType[Any, Any]) -> Any:
    """The payload type, resolved where a decorator left it as a function."""
    return resolved(kind.payload)


def run_overrides(options: RunOptions) -> RunOverrides:
    """What options say about runs, with what they leave out unset."""
    attempts: int | UnsetType = options.get("attempts", UNSET)
    if attempts is not UNSET and not (_whole(attempts, 1) and attempts <= _MOST_ATTEMPTS):
        raise ValueError(f"attempts={attempts!r}: it is the number of tries, 1 to {_MOST_ATTEMPTS:,}")
    timeout = options.get("timeout", UNSET)
    timeout_ms = timeout if timeout is UNSET or timeout is None else duration_ms(timeout)
    if timeout_ms == 0:
        raise ValueError(f"timeout={timeout!r}: no run ends in no time; None is for no timeout")
    return RunOverrides(
        attempts=attempts,
        backoff=backoff_of(options["backoff"]) if "backoff" in options else UNSET,
        timeout_ms=timeout_ms,
    )


def instant_ms(at: datetime) -> int:
    """An aware datetime in milliseconds. Raises ValueError for a naive one, whose instant nobody knows."""
    if at.tzinfo is None:
        raise ValueError(f"at={at.isoformat()}: give it a time zone, such as datetime.now(UTC)")
    return min((at - _EPOCH) // timedelta(milliseconds=1), _LAST_INSTANT_MS)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: it is True or False")
    return value


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise ValueError(f"tags={tags!r}: it is a list of texts, such as [{tags!r}]")
    return tuple(_plain("tags", tag) for tag in tags)


def _metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    return {_plain("metadata", key): _plain("metadata", value) for key, value in metadata.items()}


def _plain(name: str, value: object) -> str:
    """Text that any store and any reader can keep. A `str()` of anything else would be a guess."""
    if not isinstance(value, str):
        raise ValueError(f"{name}: {value!r} is not text")
    if not value.isprintable():
        raise ValueError(f"{name}: {value!r} is not printable text")
    return value


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _priority(value: int) -> int:
    if not _whole(value, 0) or value > MAX_PRIORITY:
        raise ValueError(f"priority={value!r}: 0 to {MAX_PRIORITY}, 0 first")
    return value


def _checked_id(value: str | None) -> str | None:
    if value is None:
        return None
    if not value or len(value.encode()) > 255 or ":" in value or value == "wf" or not value.isprintable():
        raise ValueError(f"id={value!r}: 1 to 255 bytes of printable text without a colon, and not 'wf'")
    return value


def _shown(value: object) -> str:
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"{name!r}: call its job type with a payload (`.job(payload)`)" if callable(value) else repr(value)
