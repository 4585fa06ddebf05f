"""structlog as user code uses it: its events become records of `logging`, so that one handler renders every line."""

from __future__ import annotations

from typing import Any

import structlog


def route_structlog() -> None:
    """Configure structlog for the whole process: levels and output are those of `logging`."""
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, _to_record],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _to_record(logger: Any, method: str, event_dict: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The last processor: the event is the message, and the fields travel where those of the product's events do.

    Context variables are not merged here, nor is a text made of event and arguments, which may fail: the handler does
    both for every record.
    """
    event, arguments = event_dict.pop("event", ""), event_dict.pop("positional_args", ())
    passed = {name: event_dict.pop(name) for name in ("exc_info", "stack_info") if name in event_dict}
    return (event, *arguments), {"extra": {"workfleet": event_dict}, **passed}
