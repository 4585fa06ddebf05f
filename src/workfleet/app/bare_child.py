"""What a pool's child serves where it cannot import the application (`app.run()`): the class alone, made without
arguments. Its lines go the way of all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workfleet.observe.logs.setup import configure_logging
from workfleet.pools.child_target import by_name as made
from workfleet.settings.sections import LogSettings

from .log_calls import call_fields, keep_line
from .log_options import options_of


def by_name(logs: Mapping[str, Any], module: str, qualname: str) -> object:
    """An object of the class. `logs` are the settings of logs."""
    options = options_of(LogSettings.model_validate(logs))
    configure_logging(options, keep=keep_line, context=call_fields, to_parent=1)
    return made(module, qualname)
