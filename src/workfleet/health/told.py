"""What an indicator said, as it may be told to others: plain, short, and without what nobody may read. Pure."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from .indication import Fact, Indication, is_status

_LONGEST, _LONGEST_FACT, _MOST_FACTS = 500, 200, 50
_EXACT = 2**63
"""Readers of JSON keep integers up to here."""


def as_told(said: Indication, clean: Callable[[str], str]) -> Indication:
    """What was said, with plain facts and clean texts that are cut where they are long. Nonsense is unhealthy."""
    try:
        if not is_status(said.status):
            reason = f"it said {said.status!r}, not healthy, degraded or unhealthy"
            return Indication("unhealthy", reason=_text(reason, clean, _LONGEST))
        facts = {
            _text(str(name), clean, _LONGEST_FACT): _fact(value, clean)
            for name, value in list(said.facts.items())[:_MOST_FACTS]
        }
        return Indication(said.status, facts, _text(str(said.reason), clean, _LONGEST))
    except Exception as error:  # noqa: BLE001 - the facts may be objects of user code, which may do anything
        return Indication("unhealthy", reason=f"what it said cannot be told ({type(error).__name__})")


def _fact(value: object, clean: Callable[[str], str]) -> Fact:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -_EXACT < value < _EXACT:
        return int(value)
    if isinstance(value, float) and isfinite(value):
        return float(value)
    return _text(str(value), clean, _LONGEST_FACT)


def _text(text: str, clean: Callable[[str], str], longest: int) -> str:
    # A lone surrogate can be written nowhere.
    plain = " ".join(clean(text.encode(errors="replace").decode()).split())
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"
