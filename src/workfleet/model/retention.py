"""`Retention`: how long a job is kept after it has finished, as users write it."""

from __future__ import annotations

from dataclasses import dataclass

from .durations import DurationLike, duration_ms
from .jobs import Keep, KeepRule

_MOST = 2**53 - 1


@dataclass(frozen=True)
class Retention:
    """`retention=Retention(completed="1h", failed="90d", failed_count=100)`: for how long, by how it finishes, and
    among how many of its queue that say the same. A state of which nothing is said is kept as all jobs are. With a
    count of 0 nothing is kept, the result neither: who waits for it (`JobRef.result`) may find it gone (`NotFound`).

    Raises ValueError for what cannot be right."""

    completed: DurationLike | None = None
    failed: DurationLike | None = None
    completed_count: int | None = None
    failed_count: int | None = None

    def __post_init__(self) -> None:
        for name in ("completed_count", "failed_count"):
            count = getattr(self, name)
            if count is not None and (not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST):
                raise ValueError(f"{name}={count!r}: it is a number of jobs, 0 or more")
        if self.keep == Keep():
            raise ValueError("retention says nothing: give completed=, failed= or a count, or leave it out")

    @property
    def keep(self) -> Keep:
        """The rules as they are stored with the job."""
        return Keep(_rule(self.completed, self.completed_count), _rule(self.failed, self.failed_count))


def _rule(age: DurationLike | None, count: int | None) -> KeepRule | None:
    return None if age is None and count is None else KeepRule(None if age is None else duration_ms(age), count)
