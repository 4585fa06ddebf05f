"""The table of all events in the documentation, made from the classes: `python -m workfleet.events.reference FILE`.

A test holds the file to it. What is written between the two marks is replaced, everything else is left alone.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import msgspec

import workfleet.events as catalogue

from .event import Event

BEGIN, END = "<!-- events: begin -->", "<!-- events: end -->"
_HEAD = "| event | class | level | what it says | facts |\n|---|---|---|---|---|"


def events() -> list[type[Event]]:
    """Every class of the catalogue, by wire name."""
    named = (getattr(catalogue, name) for name in catalogue.__all__)
    found = {each for each in named if isinstance(each, type) and issubclass(each, Event) and each is not Event}
    return sorted(found, key=lambda each: each.wire_name)


def table() -> str:
    """Markdown: one line an event."""
    return f"{_HEAD}\n" + "\n".join(map(_line, events()))


def _line(kind: type[Event]) -> str:
    facts = ", ".join(f"`{field.name}`" for field in msgspec.structs.fields(kind))
    level = kind.level if kind.severity is Event.severity else f"{kind.level}, or by what happened"
    note = inspect.cleandoc(kind.__doc__).replace("\n", " ") if kind.__doc__ and kind.__doc__ != Event.__doc__ else ""
    text = f"`{kind.text}`" + (f" {note}" if note else "")
    cells = (f"`{kind.wire_name}`", f"`{kind.__name__}`", level, text, facts)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def written(document: str) -> str:
    """The document with the table between its marks. ValueError: it has no marks."""
    if BEGIN not in document or END not in document:
        raise ValueError(f"the document needs the lines {BEGIN} and {END}")
    body = f"{BEGIN}\n\n{table()}\n\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: body, document, flags=re.DOTALL)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")
