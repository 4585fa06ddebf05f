"""Takes over the logging of a process that is ours: one handler for product and user lines alike, which gives them to
every destination.

Never runs on import, and never in a process that a user runs himself. Settings are read elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from workfleet.clock import SystemClock
from workfleet.errors import UsageError
from workfleet.events import Event

from .children import ChildOutlet
from .options import LogOptions, OwnDestination, Thresholds, level_of
from .outlets import Outlet, written
from .own import Own
from .redaction import Redactor
from .rendering import LogLine
from .router import Lines, Router
from .subscriber import LogSubscriber

FLUSH_S = 2.0
"""How long destinations of the application's own have at the end, all together."""
_FORMATS = ("auto", "console", "json")


class LogSetup:
    """What `configure_logging` changed in `logging`; `close()` puts it back."""

    def __init__(self, root: logging.Logger, router: Router, levels: Mapping[str, int]) -> None:
        self._root, self._router = root, router
        self._before = {name: logging.getLogger(name).level for name in levels}
        self._others = root.handlers[:]
        root.handlers[:] = [router]
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        # Else warnings would stand as bare text between the lines that a machine reads.
        logging.captureWarnings(True)

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Write out what waits, within this time, and restore handlers and levels."""
        self._router.close_all(timeout_s)
        self._root.handlers[:] = self._others
        for name, level in self._before.items():
            logging.getLogger(name).setLevel(level)
        logging.captureWarnings(False)


def configure_logging(
    options: LogOptions,
    *,
    own: Sequence[OwnDestination] = (),
    stream: TextIO | None = None,
    user_code: bool = True,
    keep: Callable[[LogLine], None] | None = None,
    context: Callable[[], Mapping[str, object]] | None = None,
    to_parent: int | None = None,
    monotonic: Callable[[], float] | None = None,
) -> LogSetup:
    """Route all logging of this process to its destinations. Raises `ConfigError` for one that cannot be opened, and
    `UsageError` for an unknown level or format.

    `own` are destinations of the application's, `stream` stands for standard error, `keep` is given what is to be kept
    with jobs, and `context` gives facts beside those of the bound run. `user_code=False` leaves structlog alone and
    unimported, for a process that runs none: the supervisor. `to_parent` is the descriptor by which a pool's child
    gives all lines to its parent, who gives them to the destinations."""
    _check_formats(options)
    thresholds = Thresholds.of(options, tuple(own))
    now = monotonic or SystemClock().monotonic
    outlets: list[Outlet] = []
    try:
        if to_parent is not None:
            outlets.append(ChildOutlet(to_parent))
        else:
            for name, destination in options.destinations.items():
                outlets.append(written(name, destination, options.format, stream, _tell, now))
            outlets += [Own(each, _tell, now) for each in own]
    except BaseException:
        for outlet in outlets:
            outlet.close(0)
        raise
    if user_code:
        from .bridge import route_structlog

        route_structlog()
    lines = Lines(Redactor(options.redact_keys, enabled=options.redact), context)
    kept = None if options.keep is None else keep
    keep_from = thresholds.lowest if options.keep is None else level_of(options.keep)
    router = Router(outlets, lines, thresholds, keep=kept, keep_from=keep_from)
    return LogSetup(logging.getLogger(), router, thresholds.of_loggers)


def _tell(event: Event) -> None:
    hear = LogSubscriber().route(type(event))
    hear(event)


def _check_formats(options: LogOptions) -> None:
    for wanted in (options.format, *(each.format for each in options.destinations.values())):
        if wanted is not None and wanted not in _FORMATS:
            raise UsageError(f"{wanted!r} is no log format: use auto, console or json")
