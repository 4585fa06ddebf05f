"""What must not be read in a log line: values under names of secrets, and secrets inside text. Pure.

On by default. A name counts by its words, so `api_key`, `apiKey` and `X-Api-Key` are one; `max_tokens` and
`password_file` are not secrets. Text loses passwords in URLs, secrets in query strings, `Bearer …` and quoted
assignments such as `password='…'`. Must not know what a log record is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from math import isfinite

MASK = "***"

# A word that makes a name a secret, wherever in the name it stands.
_SECRET_WORDS = frozenset(
    "password passwd pass pwd passphrase secret secrets token authorization auth credential credentials cookie cookies "
    "bearer jwt apikey apisecret apitoken accesskey accesstoken authtoken clientsecret csrftoken privatekey "
    "refreshtoken secretkey sessionid".split()
)
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("access", "key"), ("private", "key"), ("signing", "key"), ("session", "id")}
)
# A last word that says the value is about a secret, not one.
_ABOUT = frozenset("count type name file path url expires expiry ttl at length ms enabled required policy".split())

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Every repetition is possessive and none overlaps another start, so that a megabyte of text costs a megabyte of work.
_URL = re.compile(r"(://[^\s/?#:@'\"]*+:)[^\s/?#@\"<>]++(?=@)")
_RUN = re.compile(r"[^\s\"<>]++")
# A password that somebody forgot to encode begins here; a port does not.
_RAW_PASSWORD = re.compile(r"://[^/?#:@']*+:(?!\d{1,5}(?:[/?#,]|$)|\*\*\*@)")
_QUERY = re.compile(r"([?&;]([\w.-]++)=)[^&;\s'\"<>#]+")
_SCHEME = re.compile(r"\b([Bb]earer|[Bb]asic)( +)[A-Za-z0-9._~+/=-]{8,}")
_QUOTED = re.compile(
    r"(?<![\w.-])([\w.-]++)([\"']?\s{0,4}[=:]\s{0,4}[bBrRuU]?)(?:\"(?:[^\"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+')",
    re.DOTALL,
)
_DEEPEST = 6
_MOST = 1_000
# Readers of JSON lines keep integers up to here, and Python refuses to print those of thousands of digits.
_EXACT = 2**63


class Redactor:
    """Masks secrets in values and in text. `extra` are further names of secrets, compared by their words.

    Values come back as plain JSON values, cut where they are deep or long; that is all with `enabled=False`.
    """

    def __init__(self, extra: Iterable[str] = (), *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._extra = frozenset(_words(name) for name in extra)
        # Names repeat from line to line. Bounded, because a user's mapping may have any keys.
        self._known: dict[str, bool] = {}

    def is_secret(self, name: str) -> bool:
        """Whether a value of that name is a secret."""
        if not self._enabled:
            return False
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[name] = self._judge(_words(name))
        return known

    def fields(self, fields: Mapping[str, object]) -> dict[str, object]:
        """The same fields with secrets masked, at every depth. The given values are never changed."""
        return {name: self._value(name, value, 0) for name, value in fields.items()}

    def text(self, text: str) -> str:
        """The same text with the secrets in it masked."""
        if not self._enabled:
            return text
        if "://" in text and "@" in text:
            text = _RUN.sub(_without_raw_password, _URL.sub(rf"\1{MASK}", text))
        if "=" in text:
            text = _QUERY.sub(self._query, text)
        if "'" in text or '"' in text:
            text = _QUOTED.sub(self._quoted, text)
        if "earer " in text or "asic " in text:
            text = _SCHEME.sub(rf"\1\2{MASK}", text)
        return text

    def _judge(self, words: tuple[str, ...]) -> bool:
        if words in self._extra:
            return True
        if not words or words[-1] in _ABOUT:
            return False
        if any(word in _SECRET_WORDS or "password" in word or "passwd" in word for word in words):
            return True
        return any(pair in _SECRET_PAIRS for pair in pairwise(words))

    def _value(self, name: str, value: object, depth: int) -> object:
        # A flag or nothing at all hides nothing, and both are worth reading.
        if value is None or isinstance(value, bool):
            return value
        secret = self._known.get(name)
        if self.is_secret(name) if secret is None else secret:
            return MASK
        return self.text(value) if type(value) is str else self._plain(value, depth)

    def _plain(self, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if abs(value) < _EXACT else hex(value)
        if isinstance(value, float):
            return value if isfinite(value) else str(value)
        if isinstance(value, str):
            return self.text(value)
        if depth >= _DEEPEST:
            return "…"
        if isinstance(value, Mapping):
            some = islice(value.items(), _MOST)
            return {str(key): self._value(str(key), item, depth + 1) for key, item in some}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self._plain(item, depth + 1) for item in islice(value, _MOST)]
        return self.text(_shown(value))

    def _query(self, match: re.Match[str]) -> str:
        return match[1] + MASK if self.is_secret(match[2]) else match[0]

    def _quoted(self, match: re.Match[str]) -> str:
        if not self.is_secret(match[1]):
            return match[0]
        quote = match[0][-1]
        return f"{match[1]}{match[2]}{quote}{MASK}{quote}"


def _without_raw_password(run: re.Match[str]) -> str:
    text = run[0]
    end = text.rfind("@")
    start = _RAW_PASSWORD.search(text, 0, end) if end > 0 else None
    return text if start is None else f"{text[: start.end()]}{MASK}{text[end:]}"


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - the boundary around a user's __str__: a log line must not fail
        return f"<{type(value).__qualname__}: {type(error).__name__} in __str__>"
