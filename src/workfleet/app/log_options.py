"""What the settings say of logging, for whoever sets it up; the supervisor does so too, so this imports little."""

from __future__ import annotations

from pathlib import Path

from workfleet.errors import ConfigError, Problem
from workfleet.observe.logs.options import STREAMS, Destination, LogOptions
from workfleet.observe.logs.places import unwritable
from workfleet.observe.logs.redaction import Redactor
from workfleet.observe.logs.setup import configure_logging
from workfleet.settings.loaded import Loaded
from workfleet.settings.sections import LogDestination, LogSettings
from workfleet.supervision.control import Hello


class SupervisorLogs:
    """Logging of a supervisor, which imports no application: as the settings say it, and once a worker has told what
    the application's code gives, as that says it."""

    def __init__(self, settings: LogSettings) -> None:
        """Raises `ConfigError` for a file that cannot be written to."""
        self._settings = settings
        self._setup = configure_logging(options_of(settings), user_code=False)

    def hear(self, hello: Hello) -> None:
        """What the first worker says."""
        if hello.logs is None:
            return
        settings = LogSettings.model_validate(hello.logs)
        if settings == self._settings:
            return
        self._setup.close()
        try:
            self._setup = configure_logging(options_of(settings), user_code=False)
        except ConfigError:  # that worker cannot start, and says why
            self._setup = configure_logging(options_of(self._settings), user_code=False)

    def close(self) -> None:
        self._setup.close()


def options_of(settings: LogSettings) -> LogOptions:
    """The settings, as logging takes them."""
    there = {name: _destination(each) for name, each in settings.destinations.items()}
    kept = settings.jobs.level
    return LogOptions(
        format=settings.format,
        level=settings.level,
        levels=dict(settings.levels),
        redact=settings.redact,
        redact_keys=tuple(settings.redact_keys),
        destinations=there or {"stderr": Destination()},
        keep=None if kept == "off" else kept,
    )


def redactor_of(settings: LogSettings) -> Redactor:
    """What hides secrets as the settings say it."""
    return Redactor(settings.redact_keys, enabled=settings.redact)


def file_problems(loaded: Loaded) -> list[Problem]:
    """Files of destinations that cannot be written to. Nothing is opened."""
    problems: list[Problem] = []
    for name, each in loaded.section("log", LogSettings).destinations.items():
        if each.to not in STREAMS and (why := unwritable(Path(each.to).absolute())) is not None:
            problems.append(loaded.problem(("log", "destinations", name, "to"), f"cannot be written to: {why}"))
    return problems


def check_files(loaded: Loaded) -> None:
    """Raises `ConfigError` for files that cannot be written to."""
    if problems := file_problems(loaded):
        raise ConfigError(problems)


def _destination(settings: LogDestination) -> Destination:
    return Destination(to=settings.to, level=settings.level, format=settings.format)
