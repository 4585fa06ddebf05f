"""From a `NewJob`, what a user holds, to a `JobRecord`, what a store keeps: the one place where enqueue options are
read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import UsageError
from .ids import derived_id, new_id
from .model import checks
from .model.jobs import JobRecord
from .model.jobtypes import JobType, NewJob
from .model.names import group_name, queue_name
from .model.options import JobOptions
from .model.queue import DEFAULT_PAYLOAD
from .model.unique import Unique
from .payloads.codec import Codec
from .payloads.hints import resolved
from .templates import Template

_MOST_KEPT = 1_000
_LONGEST_KEY = 1_000
_NO_PAYLOAD = object()


@dataclass(frozen=True)
class PayloadLimits:
    """How many bytes of JSON a payload may have: what an operator says of its queue, else its job type, else the
    queue's code, else `default`."""

    default: int = DEFAULT_PAYLOAD
    operator: Mapping[str, int] = field(default_factory=dict)
    declared: Mapping[str, int] = field(default_factory=dict)

    def of(self, queue: str, kind: JobType[Any, Any] | None = None) -> int:
        """The limit on a queue. A job type's own is not for other queues than its own."""
        own = kind.payload_limit if kind is not None and kind.queue in (None, queue) else None
        return self.operator.get(queue) or own or self.declared.get(queue) or self.default


class Enqueueing:
    """Turns jobs into records. Codecs are kept per job type, so that a type is compiled once."""

    def __init__(
        self,
        default_queue: str,
        now_ms: Callable[[], int],
        *,
        limits: PayloadLimits | None = None,
        trace: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`trace` tells the trace that is current where a job is made."""
        self.default_queue = default_queue
        self.limits = limits or PayloadLimits()
        self._now_ms, self._trace = now_ms, trace
        self.seen: Callable[[NewJob[Any], JobRecord], None] = _ignored
        """Told of every job that becomes a record: for tests."""
        self._codecs: dict[int, tuple[JobType[Any, Any], Codec]] = {}
        self._templates: dict[tuple[str, bool], Template] = {}
        self._queues: set[str] = set()

    def record(self, job: NewJob[Any]) -> JobRecord:
        """The record of a new job. Raises `PayloadRejected` for a payload and `UsageError` for an option that is
        wrong."""
        if not isinstance(job, NewJob):  # type: ignore[redundant-expr,unreachable,unused-ignore]
            raise UsageError(
                f"enqueue takes a job such as WELCOME(Welcome(7)) or Emails.welcome.job(Welcome(7)), not {_shown(job)}"
            )
        kind, options = job.type, job.options
        try:
            queue = self._queue(options.get("queue") or kind.queue or self.default_queue)
            payload = self._codec(kind).encode(job.payload, limit=self.limits.of(queue, kind))
            record = self.bare(queue, kind.name, payload, options, data=job.payload)
        except (ValueError, AttributeError, KeyError) as error:
            raise UsageError(f"job {kind.name!r}: {error}") from None
        self.seen(job, record)
        return record

    def bare(
        self, queue: str, name: str, payload: bytes, options: JobOptions, *, data: object = _NO_PAYLOAD
    ) -> JobRecord:
        """The record of an encoded payload; `data` is the payload itself, from which keys are filled (left out: they
        are only checked). Raises ValueError for an option that is wrong, and what `Template.fill` raises."""
        record = JobRecord(id="", queue=self._queue(queue), name=name, payload=payload, trace=self._trace())
        if options:
            self._say(record, options, {"data": data, "name": name})
        record.id = record.id or new_id(self._now_ms())
        return record

    def _say(self, record: JobRecord, options: JobOptions, values: Mapping[str, object]) -> None:
        """Put what the options say into the record."""
        for option in options:
            if option not in JobOptions.__optional_keys__:
                known = ", ".join(sorted(JobOptions.__optional_keys__))
                raise ValueError(f"unknown option {option!r}; there are {known}")
        record.id = checks.job_id(options.get("id")) or ""
        record.run = checks.run_overrides(options)
        record.priority = checks.priority(options.get("priority", 0))
        record.lifo = checks.flag("lifo", options.get("lifo", False))
        if record.lifo and record.priority:
            raise ValueError("lifo=True with a priority: jobs of one priority are first in, first out")
        record.delay_ms, record.due_ms, record.expires_after_ms, record.expires_ms = checks.times(options)
        if "expires" in options and (record.due_ms or record.delay_ms):
            self._check_expires_later(record)
        if "unique" in options:
            record.unique = checks.unique_rule(options)
            key = self._unique_key(options["unique"], values)
            # Of its queue and name: two job types never mean the same thing by the same text.
            record.unique_key = None if key is None else f"{record.queue}/{record.name}/{key}"
        if "group" in options:
            record.group = self._group(options["group"], values)
        if "retention" in options:
            record.keep = checks.kept(options["retention"])
        record.tags = checks.texts("tags", options.get("tags", ()))
        record.metadata = checks.texts_by_name("metadata", options.get("metadata", {}))
        if record.tags or record.metadata:
            checks.labels_fit(record.tags, record.metadata)

    def _check_expires_later(self, record: JobRecord) -> None:
        """One of the two may be an instant and the other a duration."""
        now = self._now_ms()
        due_ms = max(now + record.delay_ms, record.due_ms)
        ends_ms = record.expires_ms if record.expires_after_ms is None else now + record.expires_after_ms
        if ends_ms is not None and ends_ms <= due_ms:
            raise ValueError("expires= is not after delay= or at=: it would never be started")

    def follow_up(self, job: NewJob[Any], run: JobRecord, index: int) -> JobRecord:
        """The record of a job that a run returned. Without an id of its own it gets one that derives from the run; the
        trace goes on."""
        record = self.record(job)
        if "id" not in job.options:
            record.id = derived_id(run.id, index)
        record.trace = record.trace or run.trace
        return record

    def _codec(self, kind: JobType[Any, Any]) -> Codec:
        known = self._codecs.get(id(kind))
        if known is None:
            # The type is kept beside its codec so that its id() cannot be given to another one.
            if len(self._codecs) >= _MOST_KEPT:
                self._codecs.clear()  # somebody makes job types as he goes: they must not take the memory
            known = (kind, Codec(payload_type(kind), f"payload of {kind.name}"))
            self._codecs[id(kind)] = known
        return known[1]

    def _queue(self, name: object) -> str:
        """A queue's checked name."""
        if not isinstance(name, str) or name not in self._queues:
            if len(self._queues) >= _MOST_KEPT:
                self._queues.clear()  # names made as one goes, as above
            self._queues.add(name := queue_name(name))
        return name

    def _unique_key(self, unique: str | Unique, values: Mapping[str, object]) -> str | None:
        key = self._filled("unique", unique if isinstance(unique, str) else unique.key, values, constant=False)
        if key is not None and ("\0" in key or (not key.isascii() and _unwritable(key))):
            raise ValueError(f"unique: the key {key[:20]!r}… is not text that a store can keep")
        if key is not None and len(key) > _LONGEST_KEY:
            raise ValueError(f"unique: the key {key[:20]!r}… has {len(key):,} characters, at most {_LONGEST_KEY:,}")
        return key

    def _group(self, text: object, values: Mapping[str, object]) -> str:
        group = self._filled("group", text, values, constant=True)
        return "" if group is None else group_name(group)

    def _filled(self, option: str, text: object, values: Mapping[str, object], *, constant: bool) -> str | None:
        """A key for this payload; None where there is no payload yet."""
        if not isinstance(text, str):
            raise ValueError(f"{option}={text!r}: it is a text such as '{{data.tenant}}'")
        template = self._templates.get((text, constant))
        if template is None:
            if len(self._templates) >= _MOST_KEPT:
                self._templates.clear()  # keys made as one goes, as above
            template = Template.parse(text, ("data", "name"), constant=constant)
            self._templates[text, constant] = template
        return None if values["data"] is _NO_PAYLOAD else template.fill(values)


def _unwritable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _ignored(_job: NewJob[Any], _record: JobRecord) -> None:
    """Nobody looks."""


def payload_type(kind: JobType[Any, Any]) -> Any:
    """The payload type, resolved where a decorator left it as a function."""
    return resolved(kind.payload)


def _shown(value: object) -> str:
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"{name!r}: call its job type with a payload (`.job(payload)`)" if callable(value) else repr(value)
