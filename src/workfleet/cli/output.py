"""How commands write what they list: JSON documents for programs, a plain table for pipes, a coloured one for people.

Text of jobs (names, payloads, errors) is shown with its control characters spelled out: it must not be able to paint on
or reprogram somebody's terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ..observe.logs.rendering import instant_text

T = TypeVar("T")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_STYLES = {
    "failed": "red",
    "stuck": "red",
    "orphaned": "red",
    "active": "cyan",
    "completed": "green",
    "ready": "green",
    "delayed": "yellow",
    "draining": "yellow",
    "paused": "yellow",
}
_TITLE = "bold"
_GAP = "  "
_NARROWEST = 20
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


def write(text: str = "") -> None:
    """A line on standard output."""
    print(text)


def write_json(document: object) -> None:
    """One JSON document on a line of its own, in ASCII, so that it survives every terminal and pipe."""
    print(json.dumps(document, separators=(",", ":"), allow_nan=False))


def write_done(document: object, said: str, *, as_json: bool) -> None:
    """What a command has done, or would do: a document where programs read it, else a line for people."""
    if as_json:
        write_json(document)
    else:
        write(said)


def write_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under titles; a title that begins with `>` is of a column of numbers.

    On a terminal the last column is cut to the width. Nothing else is ever cut, so that an id can be copied.
    """
    lines = [[title.lstrip(">") for title in titles], *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]

    def padded(line: Sequence[str]) -> list[str]:
        columns = zip(titles, line, widths, strict=True)
        return [cell.rjust(width) if title.startswith(">") else cell.ljust(width) for title, cell, width in columns]

    if sys.stdout.isatty():
        _write_coloured([padded(line) for line in lines], sum(widths[:-1]) + len(_GAP) * (len(widths) - 1))
        return
    for line in lines:
        print(_GAP.join(padded(line)).rstrip())


def write_listing(
    items: Sequence[T], *, document: Callable[[T], object] | None, table: Callable[[], None], nothing: str
) -> None:
    """What a listing found: a document a line where programs read it, else the table, or that there is nothing."""
    if document is not None:
        for item in items:
            write_json(document(item))
    elif items:
        table()
    else:
        write(nothing)


def write_facts(facts: Iterable[tuple[str, str]]) -> None:
    """`name  value` lines, aligned; empty values are left out."""
    told = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in told), default=0)
    for name, value in told:
        print(f"{name.ljust(width)}  {plain(value)}")


def plain(text: str) -> str:
    """Text on one line, with control characters spelled out."""
    return lines_of(text).replace("\n", "\\n").replace("\t", "\\t")


def lines_of(text: str) -> str:
    """Text of any number of lines, with control characters but newlines and tabs spelled out."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def indented(text: str) -> str:
    """The lines of a text, set off for reading."""
    return "\n".join(f"  {line}" for line in lines_of(text).split("\n"))


def at(ms: int | None) -> str:
    """An instant to the second, in UTC; "" for none."""
    return "" if ms is None else instant_text(ms // 1000 * 1000)


def near(ms: int | None, now_ms: int) -> str:
    """How far away an instant is: "in 3h", "5m ago"; "" for none."""
    if ms is None:
        return ""
    return f"in {rough(ms - now_ms)}" if ms > now_ms else f"{rough(now_ms - ms)} ago"


def rough(ms: int) -> str:
    """A duration in its largest unit: "45s", "3h", "12d"."""
    for size, unit in _UNITS:
        if ms >= size:
            return f"{ms // size}{unit}"
    return "0s"


def took(ms: int) -> str:
    """How long something took, as a person says it: "85 ms", "4.2 s", "12m"."""
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else rough(ms)


def mega(size: int) -> str:
    """A size in memory: "85 MB"."""
    return f"{size / 1e6:.0f} MB"


def count(number: int, noun: str, many: str | None = None) -> str:
    """ "1 job", "2 jobs"; `many` where it is no "s"."""
    return f"{number} {noun}" if number == 1 else f"{number} {many or f'{noun}s'}"


def _write_coloured(lines: Sequence[Sequence[str]], before_last: int) -> None:
    from rich.console import Console  # not where a program reads: it costs a third of such a command's time
    from rich.text import Text

    console = Console(highlight=False)
    left = max(console.width - before_last, _NARROWEST)
    for number, line in enumerate(lines):
        text = Text()
        for cell in (*line[:-1], _cut(line[-1].rstrip(), left)):
            text.append(cell, _TITLE if number == 0 else _STYLES.get(cell.strip(), "")).append(_GAP)
        text.rstrip()
        console.print(text, soft_wrap=True)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
