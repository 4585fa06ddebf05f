"""Text that every store can keep: what a run leaves behind may hold anything, and recording it cannot fail."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from workfleet.model.jobs import Attempt, Failure
from workfleet.model.ledger import LedgerRow


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


def clean_row(row: LedgerRow) -> LedgerRow:
    """A row of the run ledger whose texts are clean."""
    error = None if row.error is None else clean_text(row.error)
    return structs.replace(row, outcome=clean_text(row.outcome), worker=clean_text(row.worker), error=error)
