"""What must not be read in a log line: values under names of secrets, and secrets inside text. Pure.

On by default. A name counts by its words, so `api_key`, `apiKey` and `X-Api-Key` are one; `max_tokens` and
`password_file` are not secrets. Must not know what a log record is, nor how secrets stand in text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from math import isfinite

from .secret_text import MASK, without_secrets

# A word that makes a name a secret, wherever in the name it stands.
_SECRET_WORDS = frozenset(
    "password passwd pass pwd passphrase secret secrets token authorization auth credential credentials cookie cookies "
    "bearer jwt apikey apisecret apitoken accesskey accesstoken authtoken clientsecret csrftoken privatekey "
    "refreshtoken secretkey sessionid".split()
)
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("access", "key"), ("private", "key"), ("signing", "key"), ("session", "id")}
)
# Where a name has none of these in it, it is no secret: most texts need no further look.
_STEMS = frozenset("pass pwd secret token auth credential cookie bearer jwt key session".split())
# A last word that says the value is about a secret, not one.
_ABOUT = frozenset("count type name file path url expires expiry ttl at length ms enabled required policy".split())

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_DEEPEST = 6
_MOST = 1_000
_LONGEST_NAME = 64
"""Of those that are remembered."""
# Readers of JSON lines keep integers up to here, and Python refuses to print those of thousands of digits.
_EXACT = 2**63


class Redactor:
    """Masks secrets in values and in text. `extra` are further names of secrets, compared by their words.

    Values come back as plain JSON values, cut where they are deep or long; that is all with `enabled=False`.
    """

    def __init__(self, extra: Iterable[str] = (), *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._extra = frozenset(_words(name) for name in extra)
        self._stems = (*_STEMS, *(words[0] if words else "" for words in self._extra))
        # Names repeat from line to line. Bounded, because a user's mapping and a text may have any.
        self._known: dict[str, bool] = {}

    def is_secret(self, name: str) -> bool:
        """Whether a value of that name is a secret."""
        if not self._enabled:
            return False
        known = self._known.get(name)
        if known is None:
            known = self._judge(_words(name))
            if len(name) <= _LONGEST_NAME:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[name] = known
        return known

    def fields(self, fields: Mapping[str, object]) -> dict[str, object]:
        """The same fields with secrets masked, at every depth. The given values are never changed."""
        return self._pairs(fields.items(), 0)

    def text(self, text: str) -> str:
        """The same text with the secrets in it masked."""
        return without_secrets(text, self.is_secret, self._stems) if self._enabled else text

    def _judge(self, words: tuple[str, ...]) -> bool:
        if words in self._extra:
            return True
        if not words or words[-1] in _ABOUT:
            return False
        if any(word in _SECRET_WORDS or "password" in word or "passwd" in word for word in words):
            return True
        return any(pair in _SECRET_PAIRS for pair in pairwise(words))

    def _pairs(self, pairs: Iterable[tuple[object, object]], depth: int) -> dict[str, object]:
        return {
            (shown := name if type(name) is str else _shown(name)): self._value(shown, value, depth)
            for name, value in pairs
        }

    def _value(self, name: str, value: object, depth: int) -> object:
        # A flag or nothing at all hides nothing, and both are worth reading.
        if value is None or value is True or value is False:
            return value
        secret = self._known.get(name)
        if self.is_secret(name) if secret is None else secret:
            return MASK
        try:
            return self.text(value) if type(value) is str else self._plain(value, depth)
        except Exception as error:  # noqa: BLE001 - the boundary around what users give: a log line must not fail
            return f"<{type(value).__qualname__}: {type(error).__name__} in reading it>"

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
            return self._pairs(islice(value.items(), _MOST), depth + 1)
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self._plain(item, depth + 1) for item in islice(value, _MOST)]
        return self.text(_shown(value))


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - the boundary around a user's __str__, as above
        return f"<{type(value).__qualname__}: {type(error).__name__} in __str__>"
