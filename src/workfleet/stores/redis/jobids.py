"""Job ids as parts of key names: what would be another key of the queue, or of another job, is written differently."""

from __future__ import annotations

from urllib.parse import quote, unquote

_TAKEN = frozenset(
    "wait paused active delayed prioritized completed failed meta events id marker pc stalled stalled-check limiter "
    "repeat waiting-children wf".split()
)


def stored_id(job_id: str) -> str:
    """The id in Redis. BullMQ's own ids, numbers and those of its schedulers, and most others are as they are."""
    if ":" not in job_id and job_id not in _TAKEN and not job_id.startswith("%"):
        return job_id
    if job_id.startswith("repeat:"):
        return job_id
    # An escaped id begins with an escape, so that nothing else is taken for one.
    first = "".join(f"%{byte:02X}" for byte in job_id[0].encode())
    return first + quote(job_id[1:], safe=_UNCHANGED)


def shown_id(stored: bytes) -> str:
    """The id of a job in Redis."""
    text = stored.decode(errors="backslashreplace")
    return unquote(text) if text.startswith("%") else text


_UNCHANGED = " !\"#$&'()*+,/;<=>?@[\\]^`{|}"
