"""A job's options as BullMQ v6 understands them, and back: what a Node worker needs to know of a job, and we of one
that Node has added. What BullMQ has no word for is in `wf` (records.py)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from workfleet.model.jobs import JobRecord, KeepRule, RunOverrides, UniqueRule
from workfleet.model.policy import DEFAULT_BACKOFF, Backoff

from .jobids import stored_id

_LONGEST_MS = 2**53 - 1
_LONGEST_TRACE = 512
"""A W3C `traceparent` has 55 characters; later versions of it may add some. What is longer is none."""
_PLAIN = JobRecord(id="", queue="", name="")
_INHERITED, _AS_ALL = _PLAIN.run, _PLAIN.keep
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict[str, Any])


class _Carrier(Struct):
    """What OpenTelemetry's propagators write, as far as it is used here."""

    traceparent: str | None = None


_carrier = msgspec.json.Decoder(_Carrier)


def options_of(job: JobRecord) -> str:
    """The JSON of `opts`: the nearest thing that BullMQ knows."""
    stored = stored_id(job.id)
    if job.run is _INHERITED and job.keep is _AS_ALL and _is_plain(job) and _is_simple(stored):
        return f'{{"jobId":"{stored}"}}'
    options: dict[str, Any] = {"jobId": stored}
    if job.delay_ms:
        options["delay"] = job.delay_ms
    if job.priority:
        options["priority"] = job.priority
    if job.lifo:
        options["lifo"] = True
    if isinstance(job.run.attempts, int):
        options["attempts"] = job.run.attempts
    if isinstance(job.run.backoff, Backoff):
        options["backoff"] = _backoff(job.run.backoff)
    if job.keep.completed is not None:
        options["removeOnComplete"] = _keep(job.keep.completed)
    if job.keep.failed is not None:
        options["removeOnFail"] = _keep(job.keep.failed)
    if job.unique_key is not None:
        options["de"] = _deduplication(job.unique_key, job.unique)
    if job.trace:
        # As OpenTelemetry's own propagator for Node writes and reads it.
        options["tm"] = _encoder.encode({"traceparent": job.trace}).decode()
    return _encoder.encode(options).decode()


def _is_simple(text: str) -> bool:
    """Whether JSON writes it as it is."""
    return text.isascii() and text.replace("-", "").isalnum()


def _is_plain(job: JobRecord) -> bool:
    return not (job.delay_ms or job.priority or job.lifo or job.unique_key is not None or job.trace)


def overrides_from(opts: bytes) -> tuple[RunOverrides, bool, str | None]:
    """What BullMQ's options say of a job's runs, whether it is LIFO, and its W3C `traceparent`. Raises
    `msgspec.MsgspecError`."""
    options = _decoder.decode(opts)
    attempts = options.get("attempts")
    run = RunOverrides(
        attempts=max(attempts, 1) if isinstance(attempts, int) else 1, backoff=_policy(options.get("backoff"))
    )
    return run, options.get("lifo") is True, _trace(options.get("tm"))


def _trace(metadata: object) -> str | None:
    """The `traceparent` of what BullMQ's telemetry has written. It may be broken, or in a form of the producer's own:
    no job fails by that."""
    if not isinstance(metadata, str):
        return None
    try:
        said = _carrier.decode(metadata).traceparent
    except (msgspec.MsgspecError, RecursionError):
        return None
    return None if said is None or len(said) > _LONGEST_TRACE else said


def _deduplication(key: str, rule: UniqueRule) -> dict[str, Any]:
    """BullMQ replaces delayed jobs only, and by newcomers of its own."""
    said: dict[str, Any] = {"id": key}
    if rule.window_ms:
        said["ttl"] = rule.window_ms
    if rule.on_conflict != "keep":
        said["replace"] = True
    if rule.on_conflict == "debounce":
        said["extend"] = True
    return said


def _backoff(policy: Backoff) -> dict[str, Any]:
    """A backoff of an unknown type would make a Node worker throw, so every one becomes fixed or exponential."""
    if policy.kind == "own":
        policy = DEFAULT_BACKOFF
    kind = "exponential" if policy.kind == "exponential" else "fixed"
    share = policy.drawn
    return {"type": kind, "delay": policy.first_ms, **({"jitter": share} if share else {})}


def _policy(said: object) -> Backoff | UnsetType | None:
    """BullMQ's backoff; without one it retries at once."""
    if isinstance(said, int | float):
        return Backoff("fixed", int(said), int(said), "none")
    if not isinstance(said, dict):
        return Backoff("fixed", 0, 0, "none")
    delay, jitter = said.get("delay", 0), said.get("jitter") or 0
    if said.get("type") not in ("fixed", "exponential") or not isinstance(delay, int | float):
        return UNSET
    if not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
        return UNSET
    return Backoff(
        said["type"], int(delay), _LONGEST_MS, float(jitter) if 0 < jitter < 1 else "full" if jitter else "none"
    )


def _keep(rule: KeepRule) -> dict[str, int]:
    """Retention, in BullMQ's seconds."""
    kept = {} if rule.age_ms is None else {"age": max(rule.age_ms // 1000, 1)}
    return kept if rule.count is None else {**kept, "count": rule.count}
