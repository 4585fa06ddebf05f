"""`python -m bench`: one bench by name, or all of them into docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from .bench import TITLES, Bench, BenchError, Measured, document, further, rows
from .page import TABLE, write_page
from .peer import Peer
from .registry import all_benches, all_peers
from .session import measure, names_beside


def _arguments(argv: Sequence[str] | None, benches: Mapping[str, Bench]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help=f"one of {', '.join(benches)}; left out: all, into docs/benchmarks.md"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document a bench")
    parser.add_argument("--only", metavar="PEER,…", help="run beside these peers only")
    parser.add_argument("--size", metavar="N", type=_positive, help="how much of it: jobs, or seconds of idling")
    parser.add_argument("--runs", metavar="N", type=_positive, help="rounds of which the median is taken")
    arguments = parser.parse_args(argv)
    if arguments.name is not None and arguments.name not in benches:
        parser.error(f"there is no bench {arguments.name!r}, only {', '.join(benches)}")
    return arguments


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)


def _selected(
    benches: Sequence[Bench], peers: Mapping[str, Peer], only: str | None
) -> list[tuple[Bench, tuple[str, ...]]]:
    """The peers to run each bench beside. Raises BenchError when a wanted one takes part in none of them."""
    beside = {bench.name: names_beside(bench, peers.values()) for bench in benches}
    if only is None:
        return [(bench, beside[bench.name]) for bench in benches]
    wanted = tuple(peer.strip() for peer in only.split(",") if peer.strip())
    known = sorted({name for names in beside.values() for name in names})
    if unknown := sorted(set(wanted) - set(known)):
        which = benches[0].name if len(benches) == 1 else "no bench"
        has = "has no peer" if len(benches) == 1 else "has a peer"
        raise BenchError(f"{which} {has} {', '.join(unknown)}, only {', '.join(known) or 'none'}")
    return [(bench, tuple(name for name in wanted if name in beside[bench.name])) for bench in benches]


def _show(bench: Bench, found: Measured) -> None:
    """A table for people."""
    lines = [list(TITLES), *rows(bench, found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(TITLES))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for more in further(bench, found):
        print(f"  {more}")
    print(f"  median of {found.runs}, {found.size:,} {bench.size_is}", flush=True)


def main(
    argv: Sequence[str] | None = None,
    benches: Mapping[str, Bench] | None = None,
    peers: Mapping[str, Peer] | None = None,
) -> int:
    """Run it. Exits 1 when ours could not be measured, 2 for usage."""
    benches = all_benches() if benches is None else benches
    peers = all_peers() if peers is None else peers
    arguments = _arguments(argv, benches)
    chosen = [benches[arguments.name]] if arguments.name else list(benches.values())
    try:
        plans = _selected(chosen, peers, arguments.only)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    found: list[tuple[Bench, Measured]] = []
    code = 0
    for bench, beside in plans:
        try:
            measured = measure(bench, peers, beside, size=arguments.size, runs=arguments.runs)
        except BenchError as error:
            print(f"bench {bench.name}: {error}", file=sys.stderr)
            code = 1
            continue
        found.append((bench, measured))
        if arguments.json:
            print(json.dumps(document(bench, measured)), flush=True)
        else:
            _show(bench, measured)
    if not (arguments.name or arguments.only or arguments.size or arguments.runs or code):
        write_page(found)
        print(f"written: {TABLE.relative_to(TABLE.parent.parent)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
