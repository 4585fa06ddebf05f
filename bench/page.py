"""docs/benchmarks.md: a head that people write, and below a marker what the benches have found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .bench import TITLES, Bench, Measured, further, rows
from .machine import facts

TABLE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
MARKER = "<!-- written by `make bench` from here on -->"


def write_page(found: Sequence[tuple[Bench, Measured]], place: Path = TABLE) -> None:
    """Put these results below the marker, in place of the ones before."""
    head = place.read_text(encoding="utf-8").partition(MARKER)[0]
    place.write_text(f"{head}{MARKER}\n\n{_results(found)}", encoding="utf-8")


def _results(found: Sequence[tuple[Bench, Measured]]) -> str:
    options = {peer: said for _, measured in found for peer, said in measured.options.items()}
    lines = [
        "## Results",
        "",
        *(f"- {name}: {value}" for name, value in facts().items()),
        "",
        _row([*TITLES, "runs"]),
        _row(["---"] * (len(TITLES) + 1)),
        *(
            _row([f"`{name}`", *cells, str(measured.runs)])
            for bench, measured in found
            for name, *cells in rows(bench, measured)
        ),
        "",
        *(f"- {peer}: {said}" for peer, said in options.items()),
    ]
    for bench, measured in found:
        lines += ["", f"**`{bench.name}`**: {bench.about}. {measured.size:,} {bench.size_is}.", ""]
        lines += [f"- {line}" for line in further(bench, measured)]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
