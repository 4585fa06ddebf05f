"""What happens to jobs."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class JobEnqueued(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "job.enqueued"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "{name} enqueued on {queue}"
    id: str
    name: str
    queue: str
    created: bool


class JobClaimed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "job.claimed"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "{name} starts (attempt {attempt} of {max_attempts})"
    id: str
    name: str
    queue: str
    attempt: int
    max_attempts: int
    wait_ms: int
    """From ready to start."""
    schedule: str | None = None
    slot_ms: int | None = None
    housekeeping: bool = False


class JobSettled(Event, frozen=True, kw_only=True):
    """A run ended and the store has it. `state` is where the job is now, `outcome` the word for how the run ended."""

    wire_name: ClassVar[str] = "job.settled"
    text: ClassVar[str] = "{name} {outcome} after {duration_ms} ms"
    id: str
    name: str
    queue: str
    state: str
    outcome: str
    attempt: int
    duration_ms: int
    """Until the store had it."""
    started_ms: int = 0
    ended_ms: int = 0
    """When the run itself had ended."""
    error: str | None = None
    delay_ms: int = 0
    schedule: str | None = None
    slot_ms: int | None = None
    housekeeping: bool = False
    alike: int | None = None
    """Only in the log: so many of this name and outcome had no line since the one before."""

    def fields(self) -> dict[str, object]:
        # Left out of logs, whose lines have an instant of their own, and the duration.
        return {**super().fields(), "started_ms": None, "ended_ms": None}

    def message(self) -> str:
        said = super().message()
        if self.error:
            said += f": {self.error}"
        if self.state == "delayed":
            said += f"; again in {self.delay_ms} ms"
        if self.alike:
            said += f" (and {self.alike} more like it since the last such line)"
        return said

    def severity(self) -> Level:
        if self.state == "completed" or self._is_decision():
            return "debug" if self.housekeeping else "info"
        return "error" if self.state == "failed" else "warning"

    def _is_decision(self) -> bool:
        # `Retry`, `Snooze` and a cancellation are decisions, not failures; a retry asked for in the last run is one.
        if self.outcome == "retry":
            return self.state != "failed"
        return self.outcome in ("cancelled", "given_back", "snoozed")


class RunsUnlogged(Event, frozen=True, kw_only=True):
    """In one second more runs end well than anybody reads. Only the log says it; whoever listens hears of every run."""

    wire_name: ClassVar[str] = "job.unlogged"
    text: ClassVar[str] = (
        "more than {most} runs ended well within a second: its other ones have no lines (level debug has them all)"
    )
    most: int


class JobRecovered(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "job.recovered"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{name} was running when its worker ended ({how}): now {state}"
    id: str
    name: str
    queue: str
    how: str
    state: str
    worker: str
    """Who ran it."""
    outcome: str = "crashed"
    attempt: int = 1
    started_ms: int = 0
    schedule: str | None = None
    slot_ms: int | None = None
    housekeeping: bool = False

    def severity(self) -> Level:
        # A cancellation is a decision, not a failure.
        return "error" if self.state == "failed" and self.outcome != "cancelled" else "warning"


class BackoffFailed(Event, frozen=True, kw_only=True):
    """The application's own backoff gave no wait: the default one is taken."""

    wire_name: ClassVar[str] = "backoff.failed"
    level: ClassVar[Level] = "error"
    text: ClassVar[str] = "backoff {backoff} gave no wait for {name}: {error}"
    backoff: str
    id: str
    name: str
    error: str


class ClaimLost(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "claim.lost"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{name}: this run lost its claim, its result is discarded"
    id: str
    name: str
    queue: str


class JobLogged(Event, frozen=True, kw_only=True):
    """A line that a handler wrote with `job.log`."""

    wire_name: ClassVar[str] = "job.logged"
    text: ClassVar[str] = "{line}"
    id: str
    name: str
    queue: str
    line: str


class JobLinesLost(Event, frozen=True, kw_only=True):
    """Lines that a run has said and that its job does not keep. Where the hole is, a line of the job says so, too."""

    wire_name: ClassVar[str] = "job.lines_lost"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{name}: {lines} of its log lines were lost: {why}"
    id: str
    name: str
    queue: str
    lines: int
    why: str
