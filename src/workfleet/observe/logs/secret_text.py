"""Secrets inside text: in URLs, assignments, query strings, JSON and its like, and what stands behind `Bearer`. Pure.

It runs on every line, and on whatever others put there: every repetition is possessive or bounded, and none overlaps
another start, so that a megabyte of text costs a megabyte of work. Must not know which names are those of secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

MASK: Final = "***"

# To the last @ of the authority. A quote that is closed there ends it; another one is part of the password.
_URL = re.compile(r"(://[^\s/?#:'\"<>]*+:)(?:(?:[^\s/?#@'\"<>]++|'(?![,;:)\]}]))*+@)++")
# A URL with all that was written next to it; where the next URL of a list begins, that is another one.
_RUN = re.compile(r"://[^\s\"<>]++")
_NEXT_URL = re.compile(r"(?<=[,;|&=])(?=[A-Za-z][A-Za-z0-9+.-]{0,20}://)")
# A password with / ? or # that somebody forgot to encode begins here; a port does not, nor a part of an IPv6 address.
_RAW_PASSWORD = re.compile(r"://(?!\[)[^/?#:@']*+:(?!\d{1,5}(?:[/?#,;')\]}]|$)|\*\*\*@)")
_SCHEME = re.compile(r"\b([Bb]earer|[Bb]asic)( +)[A-Za-z0-9._~+/=-]{8,}")
_AUTHORIZATION = re.compile(r"(authorization\s{0,4}[:=]\s{0,4}(?:bearer|basic)\s{1,4})[^\s'\"\\,;<>]++", re.IGNORECASE)
_SCHEMES = frozenset({"bearer", "basic"})

# A name, and what begins its value: a quote, which inside JSON or a literal has backslashes before it, or nothing.
_NAMED = re.compile(
    r"(?<![\w.-])([\w.-]++)"
    r"(?:(?:\\{0,7}[\"'])?\s{0,4}[=:]\s{0,4}[bBrRuU]{0,2}(\\{0,7})([\"'])|=(?![=\s]))"
)
# Separators end a value where something follows that is another one, or nothing: a password may have them, too.
_UNQUOTED = re.compile(r"(?!<)(?:[^\s'\"\\,;&]++|[,;&](?!\s|$|[\w.-]{1,40}=)|'(?=\w)|\\(?!\\{0,7}['\"]))++")
_CLOSING = ")]}>,;"
_NOTHING = frozenset({"none", "null", "true", "false"})


def without_secrets(text: str, is_secret: Callable[[str], bool], stems: Iterable[str]) -> str:
    """The same text with `***` in the place of secrets. Values count by the names that stand before them, each of which
    has one of `stems` in it, in whatever case."""
    if "://" in text and "@" in text:
        text = _RUN.sub(_without_raw_passwords, _URL.sub(rf"\1{MASK}@", text))
    if "earer " in text or "asic " in text:
        text = _SCHEME.sub(rf"\1\2{MASK}", text)
    if "uthorization" in text or "UTHORIZATION" in text:
        text = _AUTHORIZATION.sub(rf"\1{MASK}", text)
    if "=" in text or "'" in text or '"' in text:
        lower = text.lower()
        for stem in stems:  # not any(): that costs more than it saves
            if stem in lower:
                return _without_named(text, is_secret)
    return text


def _without_raw_passwords(run: re.Match[str]) -> str:
    return "".join(map(_without_raw_password, _NEXT_URL.split(run[0])))


def _without_raw_password(text: str) -> str:
    end = text.rfind("@")
    start = _RAW_PASSWORD.search(text, 0, end) if end > 0 else None
    return text if start is None else f"{text[: start.end()]}{MASK}{text[end:]}"


def _without_named(text: str, is_secret: Callable[[str], bool]) -> str:
    parts: list[str] = []
    done = 0
    for found in _NAMED.finditer(text):
        start = found.end()
        if found.start() < done or not is_secret(found[1]):
            continue
        end = _end_unquoted(text, start) if found[3] is None else _end_quoted(text, start, len(found[2]), found[3])
        if end is not None:
            parts += (text[done:start], MASK)
            done = end
    return "".join((*parts, text[done:])) if parts else text


def _end_unquoted(text: str, start: int) -> int | None:
    """Where a value without quotes ends; None: it is no secret, or masked already."""
    found = _UNQUOTED.match(text, start)
    if found is None:
        return None
    value = found[0].rstrip(_CLOSING)
    # What follows the name of a scheme is masked.
    if not value or value.startswith(MASK) or value.lower() in _NOTHING or value.lower() in _SCHEMES:
        return None
    return start + len(value)


def _end_quoted(text: str, start: int, slashes: int, quote: str) -> int:
    """Where a value in quotes ends. Those inside it have more backslashes than its own, those around it fewer.

    A text that is cut off has no such end: the value ends with its line then."""
    seen, at = start, text.find(quote, start)
    while at >= 0:
        between = text[seen:at]
        before = len(between) - len(between.rstrip("\\"))
        if before < slashes or before % (2 * slashes + 2) == slashes:
            return at - min(before, slashes)
        seen, at = at + 1, text.find(quote, at + 1)
    line_end = text.find("\n", start)
    return len(text) if line_end < 0 else line_end
