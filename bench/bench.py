"""What a bench is and what it found, with the JSON document and the table row made of it. Knows no particular bench."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """One run of a bench. `ours` and `peers` are medians over `runs` in the bench's unit."""

    ours: float
    peers: Mapping[str, float]
    runs: int


@dataclass(frozen=True)
class Bench:
    """A named measurement. `measure` is given the peers to run beside us, a selection of `peers`."""

    name: str
    about: str
    unit: str
    peers: tuple[str, ...]
    measure: Callable[[Sequence[str]], Measured]


def document(bench: Bench, found: Measured) -> dict[str, object]:
    """The JSON document of a bench: each ratio is ours divided by the peer's, so for times lower is better."""
    return {
        "bench": bench.name,
        "unit": bench.unit,
        "ours": round(found.ours, 3),
        "peers": {peer: round(value, 3) for peer, value in found.peers.items()},
        "ratio": {peer: round(found.ours / value, 3) for peer, value in found.peers.items()},
        "runs": found.runs,
    }


def rows(bench: Bench, found: Measured) -> list[str]:
    """The bench's lines in the Markdown table, one a peer."""
    return [
        f"| `{bench.name}` | {bench.about} | {found.ours:,.1f} {bench.unit} | {peer} | {value:,.1f} {bench.unit} "
        f"| {found.ours / value:.2f} | {found.runs} |"
        for peer, value in found.peers.items()
    ]


def alternate(subjects: Mapping[str, Callable[[], float]], *, runs: int, warmups: int = 1) -> dict[str, float]:
    """The median of `runs` figures for each subject, taken in turns after `warmups` rounds that are thrown away."""
    figures: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(warmups + runs):
        for name, subject in subjects.items():
            figure = subject()
            if turn >= warmups:
                figures[name].append(figure)
    return {name: statistics.median(values) for name, values in figures.items()}
