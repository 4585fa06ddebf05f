"""How an application's place is written. It imports no application, so that a supervisor can read it too."""

from __future__ import annotations


def split(locator: str) -> tuple[str, str]:
    """The module or file, and the attribute."""
    place, _, attribute = locator.rpartition(":") if ":" in locator else (locator, "", "app")
    return place, attribute or "app"


def is_file(place: str) -> bool:
    """Whether it is a file, rather than a module's name."""
    return place.endswith(".py") or "/" in place
