"""Durations and sizes as people write them ("1h30m", "512MB"), and the integers that everything below uses.

Durations are whole milliseconds, sizes are whole bytes. A bare number is refused: its unit would be a guess.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TypeAlias

DurationLike: TypeAlias = timedelta | str
SizeLike: TypeAlias = str

_MS_PER = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_ORDER = tuple(_MS_PER)
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])\s*")
_LONGEST = 100
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")

MAX_DURATION_MS = 365_000 * _MS_PER["d"]
"""A thousand years: added to any instant of this age, it stays a date that Python and JavaScript can hold."""

_BYTES_PER = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_SIZE_UNITS = {unit.lower(): factor for unit, factor in _BYTES_PER.items()}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)")

MAX_SIZE_BYTES = 2**53 - 1
"""The largest integer that every JSON reader keeps."""


def duration_ms(value: DurationLike) -> int:
    """Whole milliseconds of a duration: a timedelta, or text made of w, d, h, m, s and ms, largest first ("1h30m").

    Fractions are rounded to the nearest millisecond. Raises ValueError for a bare number, another unit, a negative
    duration, one above a thousand years, and one that is not zero but below a millisecond.
    """
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
        return _checked_ms(Decimal(micros) / 1000, f"{value!r}")
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration: write text such as '90s' or '1h30m', or a timedelta")
    return _checked_ms(_parsed_ms(value), repr(value))


def _body(text: str) -> str:
    if len(text) > _LONGEST:
        raise ValueError(f"{text[:20]!r}… is longer than any duration or size")
    return text.strip()


def _parsed_ms(text: str) -> Decimal:
    body = _body(text)
    if _NUMBER.fullmatch(body):
        raise ValueError(f"{text!r} has no unit: write {body + 's'!r}, {body + 'm'!r} or another of w, d, h, m, s, ms")
    if body.startswith("-") and _NUMBER.match(body):
        raise ValueError(f"{text!r} is negative: a duration is zero or more")
    total, last, position = Decimal(0), -1, 0
    while part := _DURATION_PART.match(body, position):
        number, unit = part.groups()
        if _ORDER.index(unit) <= last:
            raise ValueError(f"{text!r} is not a duration: each unit once, the largest first, such as '1h30m'")
        total, last, position = total + Decimal(number) * _MS_PER[unit], _ORDER.index(unit), part.end()
    if position == 0 or position != len(body):
        raise ValueError(f"{text!r} is not a duration such as '90s', '1h30m', '250ms' or '14d'")
    return total


def _checked_ms(exact: Decimal, shown: str) -> int:
    if exact < 0:
        raise ValueError(f"{shown} is negative: a duration is zero or more")
    if exact > MAX_DURATION_MS:
        raise ValueError(f"{shown} is too long: at most {format_duration(MAX_DURATION_MS)}")
    rounded = int(exact.to_integral_value(ROUND_HALF_EVEN))
    if rounded == 0 and exact != 0:
        raise ValueError(f"{shown} is shorter than a millisecond")
    return rounded


def format_duration(ms: int) -> str:
    """Text for whole milliseconds, exact, that `duration_ms` reads back: 90_000 is "1m30s", 0 is "0s"."""
    if ms < 0:
        return f"-{format_duration(-ms)}"
    parts: list[str] = []
    for unit, factor in _MS_PER.items():
        # Fourteen days say more than two weeks, and nobody reads "52w1d".
        if unit != "w" and ms >= factor:
            count, ms = divmod(ms, factor)
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def size_bytes(value: SizeLike) -> int:
    """Whole bytes of a size such as "512MB" (decimal) or "512MiB" (binary), in B, kB…TB or KiB…TiB of any case.

    Raises ValueError for a bare number, another unit, a negative size and one above 2^53-1 bytes.
    """
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a size: write text such as '512MB' or '512MiB'")
    body = _body(value)
    if _NUMBER.fullmatch(body) and not body.startswith("-"):
        raise ValueError(f"{value!r} has no unit: write {body + 'B'!r}, {body + 'MB'!r} or {body + 'MiB'!r}")
    match = _SIZE.fullmatch(body)
    factor = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{value!r} is not a size such as '64kB', '512MB', '512MiB' or '2GB'")
    exact = Decimal(match[1]) * factor
    if exact > MAX_SIZE_BYTES:
        raise ValueError(f"{value!r} is too large: at most {MAX_SIZE_BYTES} bytes")
    if exact != exact.to_integral_value():
        raise ValueError(f"{value!r} is not a whole number of bytes")
    return int(exact)


def format_size(count: int) -> str:
    """Text for whole bytes, exact, in the largest unit without a fraction: 512_000_000 is "512MB", 1536 is "1536B"."""
    whole = [unit for unit, factor in _BYTES_PER.items() if count >= factor and count % factor == 0]
    if not whole:
        return f"{count}B"
    best = max(whole, key=lambda unit: _BYTES_PER[unit])
    return f"{count // _BYTES_PER[best]}{best}"
