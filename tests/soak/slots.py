"""What a soak of schedules is about: which schedules there are, where they run, and, by arithmetic of its own, which
slots they have. It knows nothing of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_OFFSETS_MS = (0, 250, 500, 750)
_PER_QUEUE = 6_000
_PER_OWN_QUEUE = 8_000
"""Fewer runs than the 10,000 that retention keeps of a queue: all must be there at the end to be counted."""


@dataclass(frozen=True)
class Plan:
    """So many schedules, each due every `every_ms` at an offset of its own, from `start_ms` on and before `end_ms`. The
    first `from_code` are the application's code, the others were added at run time, with queues of their own."""

    folder: Path
    url: str
    schedules: int
    start_ms: int
    end_ms: int
    every_ms: int = 1_000

    @property
    def from_code(self) -> int:
        """Half of them, as far as the one queue on which their runs are keeps those."""
        return min(self.schedules // 2, _PER_OWN_QUEUE // self._slots_each)

    @property
    def code(self) -> range:
        return range(self.from_code)

    @property
    def added(self) -> range:
        return range(self.from_code, self.schedules)

    @property
    def queues(self) -> list[str]:
        """The queues of what was added at run time."""
        return sorted({self.queue(number) for number in self.added})

    def name(self, number: int) -> str:
        return f"slots-{number:03}"

    def offset_ms(self, number: int) -> int:
        return _OFFSETS_MS[number % len(_OFFSETS_MS)]

    def queue(self, number: int) -> str:
        return f"runs-{number // max(_PER_QUEUE // self._slots_each, 1)}"

    def slots(self, number: int) -> range:
        """Every instant offset + n × every since 1970, for whole n, from the start on and before the end."""
        first = self.start_ms + (self.offset_ms(number) - self.start_ms) % self.every_ms
        return range(first, self.end_ms, self.every_ms)

    def expected(self) -> dict[str, range]:
        """The slots of every schedule, by name."""
        return {self.name(number): self.slots(number) for number in range(self.schedules)}

    @property
    def _slots_each(self) -> int:
        return max((self.end_ms - self.start_ms) // self.every_ms, 1)
