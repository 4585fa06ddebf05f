"""One run of one bench: open our subject and the peers', take turns, say who could not take part."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from .bench import Bench, BenchError, Measured, Subject, Trial, Turn, alternate
from .environments import installed
from .peer import Peer

OURS = "workfleet"


def names_beside(bench: Bench, peers: Iterable[Peer]) -> tuple[str, ...]:
    """Everything that a bench can be run beside: its baselines, then the peers that take part in it."""
    return (*bench.baselines, *(peer.name for peer in peers if bench.name in peer.subjects))


def measure(
    bench: Bench, peers: Mapping[str, Peer], beside: Iterable[str], *, size: int | None = None, runs: int | None = None
) -> Measured:
    """Run a bench beside these. Raises BenchError where ours cannot be measured; a peer that cannot is named."""
    size, runs = size or bench.size, runs or bench.runs
    unavailable: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="workfleet-bench-") as name, ExitStack() as stack:
        turns: dict[str, Turn] = {}

        def enter(who: str, subject: Subject, home: Path | None) -> None:
            folder = Path(name) / who
            folder.mkdir()
            turns[who] = stack.enter_context(subject(Trial(size, folder, home)))

        enter(OURS, bench.ours, None)
        for who in beside:
            try:
                if who in bench.baselines:
                    enter(who, bench.baselines[who], None)
                else:
                    enter(who, peers[who].subjects[bench.name], installed(peers[who].environment))
            except BenchError as error:
                unavailable[who] = str(error)
        medians, failed = alternate(turns, runs=runs, warmups=bench.warmups)
    if OURS in failed:
        raise BenchError(failed[OURS])
    if bench.derive is not None:
        medians[OURS] = {**medians[OURS], **bench.derive(medians)}
    ours = medians.pop(OURS)
    options = {who: peers[who].options for who in medians if who in peers}
    return Measured(size, runs, ours, medians, {**unavailable, **failed}, options)
