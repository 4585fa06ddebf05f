"""What a bench is and what it found, with the JSON document and table rows made of it. Knows no particular bench."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

Figures = Mapping[str, float]
"""What one turn has measured, by name. The one that a bench is about is among them (`Bench.figure`)."""
Turn = Callable[[], Figures]


class BenchError(Exception):
    """Something could not be measured. The message is for people."""


@dataclass(frozen=True)
class Trial:
    """What a subject is given: how much of it, an empty folder, and the environment that a peer was installed into."""

    size: int
    folder: Path
    home: Path | None = None


Subject = Callable[[Trial], AbstractContextManager[Turn]]
"""Something that is measured. It is opened once a run of a bench, and its turn is called once a round."""


@dataclass(frozen=True)
class Bench:
    """A named measurement.

    `ours` is our subject. `baselines` are subjects that need no environment of their own; peers (`bench/peers/`) say
    themselves which benches they take part in. `derive` makes further figures of ours out of everybody's medians."""

    name: str
    about: str
    unit: str
    figure: str
    ours: Subject
    size: int
    size_is: str
    runs: int
    better: Literal["higher", "lower"] = "higher"
    warmups: int = 0
    baselines: Mapping[str, Subject] = field(default_factory=dict)
    derive: Callable[[Mapping[str, Figures]], Figures] | None = None


@dataclass(frozen=True)
class Measured:
    """One run of a bench: medians over `runs`, of ours and by peer. `options` says how a peer was set up."""

    size: int
    runs: int
    ours: Figures
    peers: Mapping[str, Figures]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


def each_turn(measure: Callable[[Trial], Figures]) -> Subject:
    """A subject that has nothing to keep from one turn to the next: every turn gets a folder of its own."""

    @contextmanager
    def opened(trial: Trial) -> Iterator[Turn]:
        turns = 0

        def turn() -> Figures:
            nonlocal turns
            turns += 1
            folder = trial.folder / str(turns)
            folder.mkdir()
            return measure(replace(trial, folder=folder))

        yield turn

    return opened


def document(bench: Bench, found: Measured) -> dict[str, object]:
    """The JSON document of a bench. A ratio is always ours divided by theirs; `better` says whether a higher or a lower
    one is. Our further figures stand beside `ours`, those of a peer in `peer_figures`."""
    return {
        "bench": bench.name,
        "unit": bench.unit,
        "better": bench.better,
        "ours": _rounded(found.ours[bench.figure]),
        "peers": {peer: _rounded(figures[bench.figure]) for peer, figures in found.peers.items()},
        "ratio": {peer: _rounded(ratio(bench, found, peer)) for peer in found.peers},
        "runs": found.runs,
        "size": found.size,
        **{name: _rounded(value) for name, value in found.ours.items()},
        "peer_figures": {
            peer: {name: _rounded(value) for name, value in figures.items()} for peer, figures in found.peers.items()
        },
        "options": dict(found.options),
        "unavailable": dict(found.unavailable),
    }


def ratio(bench: Bench, found: Measured, peer: str) -> float:
    """Ours divided by theirs. JSON has no infinity: beside a zero it is a billion."""
    ours, theirs = found.ours[bench.figure], found.peers[peer][bench.figure]
    return ours / theirs if theirs else float(ours > 0) * 1e9


def rows(bench: Bench, found: Measured) -> list[list[str]]:
    """The bench's lines in a table: title and cells of `TITLES`, one line a peer, or one alone."""
    ours = _said(found.ours[bench.figure], bench.unit)
    lines = [
        [bench.name, ours, peer, _said(figures[bench.figure], bench.unit), f"{ratio(bench, found, peer):.2f}"]
        for peer, figures in found.peers.items()
    ]
    lines += [[bench.name, ours, peer, f"not measured: {reason}", ""] for peer, reason in found.unavailable.items()]
    return lines or [[bench.name, ours, "", "", ""]]


TITLES = ("bench", "workfleet", "beside", "theirs", "ratio")


def further(bench: Bench, found: Measured) -> list[str]:
    """What was measured beside the figure of the table, a line for each subject that has some."""
    subjects = {"workfleet": found.ours, **found.peers}
    return [
        f"{who}: {', '.join(f'{name} {value:,.6g}' for name, value in figures.items() if name != bench.figure)}"
        for who, figures in subjects.items()
        if set(figures) - {bench.figure}
    ]


def alternate(turns: Mapping[str, Turn], *, runs: int, warmups: int = 0) -> tuple[dict[str, Figures], dict[str, str]]:
    """Medians of the figures that the turns give, taken one after the other `runs` times, after `warmups` rounds that
    are thrown away. A subject whose turn fails takes no further part: the second answer says why."""
    taken: dict[str, list[Figures]] = {name: [] for name in turns}
    failed: dict[str, str] = {}
    for round_ in range(warmups + runs):
        for name, turn in turns.items():
            if name in failed:
                continue
            try:
                figures = turn()
            except BenchError as error:
                failed[name] = str(error)
                continue
            if round_ >= warmups:
                taken[name].append(figures)
    return {name: _medians(figures) for name, figures in taken.items() if name not in failed}, failed


def _medians(figures: Sequence[Figures]) -> Figures:
    return {name: statistics.median(each[name] for each in figures) for name in figures[0]}


def _rounded(value: float) -> float:
    return round(value, 3)


def _said(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:,.3g} {unit}"
