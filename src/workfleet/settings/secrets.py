"""Nothing secret is printed: what counts as a secret, and how values look where people see them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import SecretBytes, SecretStr

from .given import Plain

MASK = "********"
_LONGEST = 200
_SECRET_NAME = re.compile(r"(^|_)(pass[a-z]*|pwd|secrets?|tokens?|credentials?|apikey|key|dsn)($|_)", re.IGNORECASE)
_SECRET_FIELD = re.compile(
    r"(^|_)(pass|passwd|password|passphrase|secret|token|credentials?|apikey|((api|private|access|secret|signing)_key))$"
)
# Greedy up to the last '@': a password that should have been percent-encoded may hold any character.
_URL_PASSWORD = re.compile(r"(://[^:@/?#\s]*:).*@", re.DOTALL)
_QUERY_PASSWORD = re.compile(r"([?&](?:password|passwd|pass|pwd|secret|token|api_?key)=)[^&#\s]*", re.IGNORECASE)


def sounds_secret(name: str) -> bool:
    """Whether a name such as WORKER_MAIL_PASSWORD, which is not a setting, promises a secret. Rather once too often."""
    return _SECRET_NAME.search(re.sub(r"\W", "_", name)) is not None


def is_secret_field(name: str) -> bool:
    """Whether a model's field of that name holds a secret, though its type may be plain text."""
    return _SECRET_FIELD.search(name.lower()) is not None


def mask_url(text: str) -> str:
    """The text with the password of a URL in it hidden."""
    return _QUERY_PASSWORD.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1{MASK}@", text))


def shown(value: Any, *, secret: bool = False, url: bool = False) -> str:
    """A value as people may see it. `url` marks a secret of which only the password is hidden."""
    if isinstance(value, SecretStr | SecretBytes):
        secret, value = True, value.get_secret_value()
    if secret and value is not None and not (url and isinstance(value, str)):
        return MASK
    text = _plain_text(value)
    # A secret URL in which no password can be told apart is hidden whole.
    if secret and url and "@" in text and MASK not in mask_url(text):
        return MASK
    text = _printable(mask_url(text))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _printable(text: str) -> str:
    """Line breaks, escape codes for the terminal and bytes that are no text, made visible."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _plain_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Plain):
        return value.text
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(shown, value))
    if isinstance(value, dict):
        items = (f"{key}: {shown(item, secret=sounds_secret(str(key)))}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    return str(value)


def scrubbed(text: str, secrets: Iterable[Any]) -> str:
    """A message that foreign code wrote, with every one of these secret values taken out."""
    for secret in secrets:
        raw = secret.get_secret_value() if isinstance(secret, SecretStr | SecretBytes) else secret
        plain = raw.text if isinstance(raw, Plain) else str(raw)
        if plain:
            text = text.replace(plain, MASK)
    return text
