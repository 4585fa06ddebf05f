"""Cron arithmetic: exact, in every zone, through every change of the clock. Pure: no clock, standard library only.

fields, days and parse turn text into sets; zones turns a time zone into spans of constant offset; search puts the two
together (`Cron`); describe and preview put the result into words."""

from .faults import CronError
from .parse import uses_hash
from .preview import Occurrence, occurrences
from .search import Cron, DstGap, DstOverlap
from .zones import Zone, ZoneError, zone

__all__ = [
    "Cron",
    "CronError",
    "DstGap",
    "DstOverlap",
    "Occurrence",
    "Zone",
    "ZoneError",
    "occurrences",
    "uses_hash",
    "zone",
]
