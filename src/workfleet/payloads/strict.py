"""What counts as JSON here: integers within ±(2^53−1), finite floats, string keys, valid text. Anything else is refused
with the path of the place, because it would come back as something else, or not at all (RFC 8259, I-JSON RFC 7493)."""

from __future__ import annotations

import math

from workfleet.errors import PayloadRejected

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 200


def check_json(value: object, what: str) -> None:
    """Raise `PayloadRejected` where a value made of plain Python objects is not strict JSON."""
    if not _is_strict(value, 0):
        _check(value, what, "$", 0)


def has_no_number(value: object) -> bool:
    """Whether a NaN or an infinity is somewhere in it."""
    kind = type(value)
    if kind is str or kind is int or value is None or kind is bool:
        return False
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(has_no_number, value.values()))
    return isinstance(value, list | tuple | set | frozenset) and any(map(has_no_number, value))


def check_numbers(value: object, written: object, what: str, path: str = "$") -> None:
    """Raise `PayloadRejected` where a NaN or an infinity in `value` was written as null or as no JSON. `written` is the
    JSON of it, with its parts in the same order; as text it reads back."""
    if isinstance(value, float):
        if not math.isfinite(value) and not isinstance(written, str):
            raise PayloadRejected(what, path, f"{value} is no JSON number")
    elif isinstance(value, dict) and isinstance(written, dict):
        for item, (key, said) in zip(value.values(), written.items(), strict=False):
            check_numbers(item, said, what, f"{path}.{key}")
    elif isinstance(value, list | tuple | set | frozenset) and isinstance(written, list):
        for index, (item, said) in enumerate(zip(value, written, strict=False)):
            check_numbers(item, said, what, f"{path}[{index}]")


def _is_strict(value: object, depth: int) -> bool:
    """Whether a value is strict JSON, without saying where it is not. What it does not know it calls wrong."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_text(value)  # type: ignore[attr-defined, arg-type]
    if kind is int:
        return -MAX_INTEGER <= value <= MAX_INTEGER  # type: ignore[operator]
    if value is None or kind is bool:
        return True
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]
    if depth >= MAX_DEPTH:
        return False
    if kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str or not (key.isascii() or _is_text(key)) or not _is_strict(item, depth + 1):
                return False
        return True
    if kind is list or kind is tuple:
        return all(_is_strict(item, depth + 1) for item in value)  # type: ignore[attr-defined]
    return False


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check(value: object, what: str, path: str, depth: int) -> None:
    kind = type(value)
    if kind is str:
        _check_text(value, what, path)  # type: ignore[arg-type]
    elif kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:  # type: ignore[operator]
            raise PayloadRejected(what, path, "the integer is beyond ±(2^53-1), which readers round: send it as text")
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise PayloadRejected(what, path, f"{value} is no JSON number")
    elif value is None or kind is bool:
        return
    elif depth >= MAX_DEPTH:
        raise PayloadRejected(what, path, f"nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise PayloadRejected(what, path, f"the key {key!r} is {_named(key)}; JSON keys are text")
            _check_text(key, what, path)
            _check(item, what, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, what, f"{path}[{index}]", depth + 1)
    else:
        advice = "declare the type (a dataclass, a Struct, a pydantic model) or convert it"
        raise PayloadRejected(what, path, f"{_named(value)} is not JSON; {advice}")


def _check_text(text: str, what: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PayloadRejected(what, path, f"the text is not valid Unicode ({error.reason})") from None


def _named(value: object) -> str:
    return f"a value of type {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")
