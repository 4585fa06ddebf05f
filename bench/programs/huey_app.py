"""Huey's application: the same jobs as ours. `BENCH_HUEY` is the JSON of the options that SqliteHuey gets.

Huey is installed in an environment of its own only, so that it is imported by name here."""

from __future__ import annotations

import json
import os
import sqlite3
from importlib import import_module
from typing import Any

from bench.programs.marks import FOLDER, Marks, Tally

marks = Marks()
huey: Any = import_module("huey").SqliteHuey(
    "bench", filename=str(FOLDER / "huey.db"), **json.loads(os.environ["BENCH_HUEY"])
)


def _noop(mail: dict[str, object]) -> None:
    marks.run()


def _late(mail: dict[str, Any]) -> None:
    marks.began(mail["sent_ns"])


noop = huey.task(name="noop")(_noop)
late = huey.task(name="late")(_late)


def _count_statements() -> None:
    """As for ours, on the connection that the storage makes next."""
    tally, make = Tally(FOLDER / "statements"), huey.storage._create_connection

    def made() -> sqlite3.Connection:
        connection: sqlite3.Connection = make()
        connection.set_trace_callback(lambda _statement: tally.add())
        return connection

    huey.storage._create_connection = made


if "BENCH_COUNT" in os.environ:
    _count_statements()
