"""Text that every store can keep: what a run leaves behind may hold anything, and recording it cannot fail."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from workfleet.model.jobs import Attempt, Failure


def clean_text(text: str) -> str:
    """Text without lone surrogates, which UTF-8 cannot hold."""
    return text.encode(errors="backslashreplace").decode()


def clean(value: Failure | Attempt) -> Failure | Attempt:
    """A failure or an attempt whose texts are clean."""
    cleaned: dict[str, Any] = {}
    for name, kept in structs.asdict(value).items():
        if isinstance(kept, str):
            cleaned[name] = clean_text(kept)
        elif isinstance(kept, Failure):
            cleaned[name] = clean(kept)
    return structs.replace(value, **cleaned)
