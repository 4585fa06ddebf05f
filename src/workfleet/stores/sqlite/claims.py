"""Which number a claim has in the file, and how it is noted. Knows no jobs."""

from __future__ import annotations

from workfleet.ports.jobs import ClaimRequest, TakeOver

from .lane import Note, Step

_REMEMBERED = 10_000
_BLOCK = 1_000


def claim_note(step: Step, app: str, token: str) -> Note | None:
    """The number under which a token's claim is noted, and since when."""
    known = step.memo.notes.get(token)
    if known is None:
        row = step.row("SELECT claim, granted_ms FROM wf_claim WHERE app = ? AND token = ?", app, token)
        known = None if row is None else (row[0], row[1])
    return known


def known_number(step: Step, app: str, token: str) -> int | None:
    """The number of a token that comes again. As stored: its note may have been cleaned up since it was remembered."""
    step.memo.notes.pop(token, None)
    note = claim_note(step, app, token)
    return None if note is None else note[0]


def next_number(step: Step) -> int:
    """A number that no claim has had. Those of a block are nobody else's, so that few claims write down the newest."""
    numbers = step.memo.numbers
    if numbers:
        return numbers[0]
    row = step.row("SELECT value + 1 FROM wf_meta WHERE key = 'claim'")
    assert row is not None
    number: int = row[0]
    return number


def note_claim(step: Step, app: str, number: int, request: ClaimRequest | TakeOver, *, again: bool) -> None:
    """Note a claim, once it is known that it has jobs: a poll that finds nothing writes nothing.

    A token keeps its number while it is noted. No number is ever another token's: the store refuses the second."""
    memo = step.memo
    if again:
        renote = "UPDATE wf_claim SET worker = ?, granted_ms = ? WHERE claim = ?"
        step.change(renote, request.worker, step.now, number)
    else:
        note = "INSERT INTO wf_claim (claim, app, token, worker, granted_ms) VALUES (?, ?, ?, ?, ?)"
        step.change(note, number, app, request.token, request.worker, step.now)
        if not memo.numbers:
            step.change("UPDATE wf_meta SET value = ? WHERE key = 'claim'", number + _BLOCK - 1)
            memo.numbers = range(number, number + _BLOCK)
        memo.numbers = memo.numbers[1:]
    if len(memo.notes) > _REMEMBERED:
        memo.notes.clear()
    memo.notes[request.token] = (number, step.now)
