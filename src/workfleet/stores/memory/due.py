"""Which schedules are handed out next, in memory: a heap whose entries are outdated where something changed since."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from workfleet.model.schedules import ScheduleRecord

_SLACK = 64


class DueBook:
    """Live schedules by the instant at which they are handed out, then by name."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def note(self, record: ScheduleRecord) -> None:
        """A schedule is as it is now."""
        at_ms = _handed_out_ms(record)
        if at_ms is None:
            self.forget(record.name)
        elif self._at.get(record.name) != at_ms:
            self._at[record.name] = at_ms
            heappush(self._heap, (at_ms, record.name))
            if len(self._heap) > 2 * len(self._at) + _SLACK:
                self._heap = [(at, name) for name, at in self._at.items()]
                heapify(self._heap)

    def forget(self, name: str) -> None:
        """A schedule is not handed out any more."""
        self._at.pop(name, None)

    def first_ms(self) -> int | None:
        """The first instant."""
        heap = self._heap
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def up_to(self, until_ms: int) -> Iterator[str]:
        """The names of those that are handed out up to an instant, in order. Each is to be noted anew."""
        while (first := self.first_ms()) is not None and first <= until_ms:
            _, name = heappop(self._heap)
            del self._at[name]
            yield name


def _handed_out_ms(record: ScheduleRecord) -> int | None:
    if not record.enabled or record.paused or record.orphaned or record.next_due_ms is None:
        return None
    return max(record.next_due_ms, record.held_until_ms or 0)
