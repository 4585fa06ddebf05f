"""What a claim still wants, once it was given something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import structs

from workfleet.model.jobs import JobRecord
from workfleet.ports.jobs import ClaimRequest, Want


def still_wanted(request: ClaimRequest, given: Sequence[JobRecord]) -> ClaimRequest:
    """The claim without what it was given. Every queue stays in it, also one that has given enough."""
    had = Counter(record.queue for record in given)
    wants = []
    for want in request.wants:
        got = min(had[want.queue], max(want.limit, 0))
        had[want.queue] -= got
        share = None if want.share is None else max(want.share - got, 0)
        wants.append(Want(want.queue, want.limit - got, share))
    total = None if request.total is None else request.total - len(given)
    return structs.replace(request, wants=tuple(wants), total=total)
