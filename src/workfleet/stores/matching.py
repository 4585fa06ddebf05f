"""Whether a query wants a job: for stores that look at records."""

from __future__ import annotations

from workfleet.model.jobs import JobRecord
from workfleet.ports.jobs import JobQuery


def matches(record: JobRecord, query: JobQuery) -> bool:
    """Whether a query wants a job."""
    return (
        query.queue in (None, record.queue)
        and query.name in (None, record.name)
        and query.group in (None, record.group)
        and (query.tag is None or query.tag in record.tags)
        and (query.states is None or record.state in query.states)
        and (query.housekeeping or not record.housekeeping)
        and (query.created_from_ms is None or record.created_ms >= query.created_from_ms)
        and (query.created_before_ms is None or record.created_ms < query.created_before_ms)
        and (query.after is None or (record.created_ms, record.id) < query.after)
        and (query.text is None or _says(record, query.text))
    )


def _says(record: JobRecord, text: str) -> bool:
    """Whether a text is in the payload or the failure. `bytes.lower` changes ASCII letters only, as it should."""
    wanted = _bytes(text).lower()
    said = [record.payload]
    if record.failure is not None:
        said += [_bytes(record.failure.message), _bytes(record.failure.type)]
    return any(wanted in each.lower() for each in said)


def _bytes(text: str) -> bytes:
    return text.encode(errors="backslashreplace")
