"""What a queue or a job can be called, in every store and on every screen."""

from __future__ import annotations

_LONGEST = 200


def queue_name(text: object) -> str:
    """A queue's name: 1 to 200 printable characters without ':', which separates the parts of keys. Raises
    ValueError."""
    name = plain_name("queue", text)
    if ":" in name:
        raise ValueError(f"queue {name!r}: a name has no ':'")
    return name


def group_name(text: object) -> str:
    """A group's name: as a queue's, with ':' allowed. Raises ValueError."""
    return plain_name("group", text)


def plain_name(what: str, text: object) -> str:
    """A name: 1 to 200 printable characters, not padded. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError(f"{what} {text!r}: a name is text")
    if not text or text != text.strip() or not text.isprintable():
        raise ValueError(f"{what} {text!r}: a name is printable text that is neither empty nor padded")
    if len(text) > _LONGEST:
        raise ValueError(f"{what} {text[:20]!r}…: a name has at most {_LONGEST} characters")
    return text
