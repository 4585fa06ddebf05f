"""Job ids as parts of key names: what would be another key of the queue, or of another job, is written differently.

The other way round, whatever BullMQ has stored is one id, which leads back to it."""

from __future__ import annotations

from urllib.parse import quote, unquote

_TAKEN = frozenset(
    "wait paused active delayed prioritized completed failed meta events id marker pc stalled stalled-check limiter "
    "repeat waiting-children wf".split()
)
_FAMILIES = frozenset({"wf", "de", "metrics"})
"""What keys of a queue that have three parts begin with."""
_OF_A_JOB = frozenset("lock logs dependencies processed failed unsuccessful".split())
_UNCHANGED = " !\"#$&'()*+,/;<=>?@[\\]^`{|}"


def stored_id(job_id: str) -> str:
    """The id in Redis. Those that BullMQ makes or allows are as they are, but for what would be another key."""
    if ":" not in job_id and job_id not in _TAKEN and not job_id.startswith("%"):
        return job_id  # as most
    return _escaped(job_id) if _must_be_escaped(job_id) else job_id


def shown_id(stored: bytes) -> str:
    """The id of a job in Redis."""
    text = stored.decode(errors="backslashreplace")
    return unquote(text) if text.startswith("%") and _must_be_escaped(text) else text


def _must_be_escaped(job_id: str) -> bool:
    if job_id.startswith("%"):
        # What is no escape of ours is an id as any other.
        plain = unquote(job_id)
        return plain != job_id and _must_be_escaped(plain) and _escaped(plain) == job_id
    if ":" not in job_id:
        return job_id in _TAKEN
    if job_id.startswith("repeat:"):
        return False
    # BullMQ allows colons where they make three parts.
    first, *others = job_id.split(":")
    return len(others) != 2 or first in _FAMILIES or others[1] in _OF_A_JOB


def _escaped(job_id: str) -> str:
    # It begins with an escape, so that nothing else is taken for one.
    first = "".join(f"%{byte:02X}" for byte in job_id[0].encode())
    return first + quote(job_id[1:], safe=_UNCHANGED)
