"""`workfleet cron`: what an expression means, and when it is due next. It needs no application and no store."""

from __future__ import annotations

from typing import get_args

import click

from ..clock import SystemClock
from ..errors import UsageError
from ..model.cron import Cron, DstGap, DstOverlap, Occurrence, occurrences
from ..model.timing import At, TimingError, timing
from .options import CONTEXT, debug_option, json_option
from .output import write, write_listing, write_table

_TITLES = ("UTC", "LOCAL", "NOTE")


@click.command("cron", context_settings=CONTEXT)
@click.argument("expression", metavar="EXPR")
@click.option("--timezone", metavar="ZONE", default="UTC", show_default=True, help="Where the expression is local.")
@click.option("--after", metavar="ISO", help="From when on, if not from now; without an offset it is local in ZONE.")
@click.option(
    "-n", "wanted", metavar="N", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many."
)
@click.option("--name", help="The schedule's name, by which H spreads.")
@click.option(
    "--dst-gap",
    type=click.Choice(get_args(DstGap)),
    default="shift",
    show_default=True,
    help="What becomes of a fixed time that the clock passes over.",
)
@click.option(
    "--dst-overlap",
    type=click.Choice(get_args(DstOverlap)),
    default="first",
    show_default=True,
    help="Which of two equal times a fixed time means.",
)
@json_option
@debug_option
def cron(
    *,
    expression: str,
    timezone: str,
    after: str | None,
    wanted: int,
    name: str | None,
    dst_gap: DstGap,
    dst_overlap: DstOverlap,
    as_json: bool,
) -> int:
    """Explain a cron expression: in words, and its next times in UTC, on the wall clock, and what daylight saving does
    to them. Quote it, or the shell reads the stars.

    \b
    Examples:
      workfleet cron '30 2 * * *' --timezone Europe/Berlin --after 2026-03-28
      workfleet cron 'H H(0-5) * * MON-FRI' --name nightly -n 3 --json
    """
    parsed = Cron.parse(expression, timezone=timezone, dst_gap=dst_gap, dst_overlap=dst_overlap, hash_name=name)
    start = SystemClock().now_ms() if after is None else _instant(after, timezone)
    found = occurrences(parsed, start, wanted)
    if not as_json:
        write(parsed.describe())
        write()
    write_listing(
        found,
        document=_document if as_json else None,
        table=lambda: write_table(_TITLES, [(each.utc, each.local, each.note or "") for each in found]),
        nothing="it is never due again",
    )
    return 0


def _document(found: Occurrence) -> dict[str, str | None]:
    return {"utc": found.utc, "local": found.local, "note": found.note}


def _instant(text: str, timezone: str) -> int:
    try:
        made = timing(at=text, timezone=timezone)
    except TimingError as error:
        raise UsageError(f"--after {text[:40]!r}: {error.reason}") from None
    assert isinstance(made, At)
    return made.at_ms
