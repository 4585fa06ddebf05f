"""Logging of one process that runs an application's code. It is set up again when more of the settings is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workfleet.errors import Problem
from workfleet.modules.module import Module
from workfleet.observe.logs.options import OwnDestination
from workfleet.observe.logs.setup import LogSetup, configure_logging
from workfleet.settings.loaded import Loaded
from workfleet.settings.sections import LogSettings

from .log_calls import call_fields, keep_line
from .log_options import file_problems, options_of


class ProcessLogs:
    """Logging of a process that runs an application's code."""

    def __init__(self) -> None:
        self._setup: LogSetup | None = None

    def configure(self, settings: LogSettings, own: Sequence[OwnDestination] = ()) -> None:
        """From now on it is so. Raises `ConfigError` for a file that cannot be written to."""
        self.close()
        self._setup = configure_logging(options_of(settings), own=own, keep=keep_line, context=call_fields)

    def close(self) -> None:
        """Write out what waits, as far as there is time."""
        if self._setup is not None:
            setup, self._setup = self._setup, None
            setup.close()


def to_parent(settings: LogSettings) -> None:
    """In a pool's child: all lines go to the parent, by a descriptor that nobody redirects."""
    configure_logging(options_of(settings), keep=keep_line, context=call_fields, to_parent=1)


def own_destinations(modules: Iterable[Module]) -> list[OwnDestination]:
    """Those of the modules."""
    return [each for module in modules for each in module.log_destinations]


def log_problems(loaded: Loaded, modules: Iterable[Module]) -> list[Problem]:
    """What keeps destinations from being what they should. Nothing is opened."""
    problems, taken = file_problems(loaded), set(loaded.section("log", LogSettings).destinations)
    for own in own_destinations(modules):
        if own.name in taken:
            problems.append(Problem(f"log destination {own.name}", "there are two of this name: give one another"))
        taken.add(own.name)
    return problems
