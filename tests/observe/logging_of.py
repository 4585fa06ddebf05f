"""Logging set up for a test, and put back; the lines of one destination as documents."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workfleet.observe.logs.options import LogOptions, OwnDestination
from workfleet.observe.logs.rendering import LogLine
from workfleet.observe.logs.setup import configure_logging


class Seconds:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def logging_of(
    own: Sequence[OwnDestination] = (),
    *,
    keep: Callable[[LogLine], None] | None = None,
    keep_from: str | None = None,
    context: Callable[[], Mapping[str, object]] | None = None,
    monotonic: Callable[[], float] | None = None,
    close_s: float = 30.0,
    **options: Any,
) -> Iterator[io.StringIO]:
    """What is written to standard error."""
    stream = io.StringIO()
    setup = configure_logging(
        LogOptions(keep=keep_from, **{"format": "json", **options}),
        own=own,
        stream=stream,
        keep=keep,
        context=context,
        monotonic=monotonic,
    )
    try:
        yield stream
    finally:
        setup.close(close_s)


def documents(text: str | Path) -> list[dict[str, Any]]:
    """The lines of a text or a file."""
    text = text.read_text() if isinstance(text, Path) else text
    return [json.loads(line) for line in text.splitlines()]


def messages(text: str | Path) -> list[str]:
    """What they say."""
    return [str(line["message"]) for line in documents(text)]
