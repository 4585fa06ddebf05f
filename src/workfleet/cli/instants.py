"""How instants and ages are written on the command line."""

from __future__ import annotations

from datetime import datetime

from ..errors import UsageError
from ..model.durations import DurationLike, duration_ms

_UTC = "2026-12-24T18:00Z"
_EXAMPLES = f"{_UTC} or 2026-12-24T19:00+01:00"


def instant_of(option: str, text: str) -> datetime:
    """An instant in ISO 8601 with its zone. Raises `UsageError`."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text[:40]!r}: it is no instant such as {_EXAMPLES}") from None
    if at.tzinfo is None:
        raise UsageError(f"{option} {text!r}: it has no time zone: write it as {_EXAMPLES}")
    return at


def local_instant_of(option: str, text: str) -> datetime:
    """A date and time in ISO 8601; without its zone it is local where the command says. Raises `UsageError`."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text[:40]!r}: it is no date and time such as 2026-12-24T18:00 or {_UTC}") from None


def age_of(option: str, text: str | None) -> DurationLike | datetime | None:
    """A duration such as 1h30m, or an instant. Raises `UsageError`."""
    if text is None:
        return None
    if text[:4].isdigit() and text[4:5] == "-":
        return instant_of(option, text)
    try:
        duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}; nor is it an instant such as {_EXAMPLES}") from None
    return text
