"""Identifiers: UUIDv7 (RFC 9562) for jobs and tokens, so that ids made later sort later."""

from __future__ import annotations

import os
import uuid


def new_id(now_ms: int) -> str:
    """A UUIDv7 as text: 48 bits of milliseconds, then randomness."""
    bits = (now_ms & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    bits = bits & ~(0xF << 76) | 0x7 << 76
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=bits))


def derived_id(*parts: object) -> str:
    """The same id for the same parts, such as a schedule and its slot: enqueuing it twice makes one job."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(map(str, parts))))


def new_token() -> str:
    """A token that nobody else has."""
    return os.urandom(16).hex()


_NAMESPACE = uuid.UUID("8d1d3a5e-6f0c-5f6e-9d0b-3c7b1f5a2e44")
