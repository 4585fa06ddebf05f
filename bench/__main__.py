"""`python -m bench`: one bench by name, or all of them into docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import startup
from .bench import Bench, Measured, document, rows
from .machine import facts

BENCHES = {bench.name: bench for bench in (startup.BENCH,)}
TABLE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=sorted(BENCHES), help="left out: all, written to docs/benchmarks.md")
    parser.add_argument("--json", action="store_true", help="print one JSON document a bench")
    parser.add_argument("--only", metavar="PEER,…", help="run beside these peers only")
    return parser.parse_args()


def _selected(bench: Bench, only: str | None) -> tuple[str, ...]:
    """The peers to run. Ends the program with 2 when a wanted one is not a peer of this bench."""
    if only is None:
        return bench.peers
    wanted = tuple(peer.strip() for peer in only.split(",") if peer.strip())
    unknown = sorted(set(wanted) - set(bench.peers))
    if unknown:
        print(f"bench {bench.name} has no peer {', '.join(unknown)}: it has {', '.join(bench.peers)}", file=sys.stderr)
        raise SystemExit(2)
    return wanted


def _write_table(found: dict[str, Measured]) -> None:
    """Writes the page of all benches, with what they were measured on."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`. Every figure is a median, taken in turns with its peer in the same run on the same",
        "machine; the ratio is ours divided by the peer's (for times, lower is better).",
        "",
        *(f"- {name}: {value}" for name, value in facts().items()),
        "",
        "| bench | what is measured | workfleet | beside | theirs | ratio | runs |",
        "|---|---|---|---|---|---|---|",
        *(row for name, measured in found.items() for row in rows(BENCHES[name], measured)),
    ]
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    arguments = _arguments()
    chosen = [BENCHES[arguments.name]] if arguments.name else list(BENCHES.values())
    plans = [(bench, _selected(bench, arguments.only)) for bench in chosen]
    found: dict[str, Measured] = {}
    for bench, peers in plans:
        measured = found[bench.name] = bench.measure(peers)
        if arguments.json:
            print(json.dumps(document(bench, measured)), flush=True)
        else:
            print(*rows(bench, measured), sep="\n", flush=True)
    if not arguments.name and not arguments.only:
        _write_table(found)
        print(f"written: {TABLE.relative_to(TABLE.parent.parent)}", file=sys.stderr)


if __name__ == "__main__":
    main()
