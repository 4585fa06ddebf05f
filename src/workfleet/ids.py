"""Identifiers: UUIDv7 (RFC 9562) for jobs and tokens, so that ids made later sort later."""

from __future__ import annotations

import os
import uuid


def new_id(now_ms: int) -> str:
    """A UUIDv7 as text: 48 bits of milliseconds, then randomness."""
    # Written down digit by digit: `uuid.UUID` takes three times as long, and there is one for each job.
    drawn, when = os.urandom(10).hex(), f"{now_ms & 0xFFFF_FFFF_FFFF:012x}"
    return f"{when[:8]}-{when[8:]}-7{drawn[:3]}-{_VARIANT[drawn[3]]}{drawn[4:7]}-{drawn[7:19]}"


def derived_id(*parts: object) -> str:
    """The same id for the same parts, such as a schedule and its slot: enqueuing it twice makes one job."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(map(str, parts))))


def new_token() -> str:
    """A token that nobody else has."""
    return os.urandom(16).hex()


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The digit that says the variant, whose two lower bits are random."""
_NAMESPACE = uuid.UUID("8d1d3a5e-6f0c-5f6e-9d0b-3c7b1f5a2e44")
