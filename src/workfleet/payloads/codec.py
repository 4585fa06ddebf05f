"""Typed values to JSON and back. A codec is made once for a type and used for every job of it.

Without a declared type only JSON passes. A declared type may be anything that msgspec knows (dataclass, Struct,
TypedDict, datetime, Decimal, UUID, bytes, set, enum, collections of them) or a pydantic model. Nothing is ever pickled.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import msgspec.inspect

from workfleet.errors import PayloadRejected
from workfleet.model.queue import DEFAULT_PAYLOAD, LARGEST_PAYLOAD

from .foreign import foreign_type
from .strict import check_json, check_numbers, has_no_number

DEFAULT_LIMIT = DEFAULT_PAYLOAD
_RAISE = ', or raise max_payload of its queue, up to "64MiB"'


class Codec:
    """Encodes and decodes values of one type. `what` names the thing in errors, such as "payload of welcome"."""

    def __init__(self, hint: Any, what: str, *, limit: int = DEFAULT_LIMIT) -> None:
        self.what, self.limit = what, limit
        self.hint = type(None) if hint is None else hint
        self._typed = self.hint not in (Any, object)
        self._encode, self._decode = _pair(self.hint, what)

    def encode(self, value: object, *, limit: int | None = None) -> bytes:
        """The value as strict JSON. Raises `PayloadRejected` with the path of what does not fit the type, is no JSON,
        or is larger than `limit` bytes (None: the codec's own)."""
        try:
            data = self._encode(value)
            if self._typed:
                self._decode(data)
        except PayloadRejected:
            raise
        except (RecursionError, OverflowError, UnicodeEncodeError, TypeError, ValueError) as error:
            raise _rejected(self.what, error) from None
        return _limited(data, self.what, self.limit if limit is None else limit)

    def decode(self, data: bytes) -> Any:
        """The value of stored JSON. Raises `PayloadRejected` where it is not of the type."""
        try:
            return self._decode(data)
        except (RecursionError, TypeError, ValueError) as error:
            raise _rejected(self.what, error) from None


def _pair(hint: Any, what: str) -> tuple[Callable[[object], bytes], Callable[[bytes], Any]]:
    if isinstance(hint, type) and hasattr(hint, "model_validate_json"):
        return lambda value: _dump_model(_model(hint, value), what), hint.model_validate_json
    try:
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(hint)
        foreign = foreign_type(msgspec.inspect.type_info(hint))
    except (TypeError, NotImplementedError, NameError) as error:
        raise PayloadRejected(what, "$", f"the type {hint!r} cannot be stored: {error}") from None
    if foreign is not None:
        advice = "declare a dataclass, a Struct, a TypedDict, or a pydantic model by itself"
        raise PayloadRejected(what, "$", f"the type {foreign.__module__}.{foreign.__qualname__} is no JSON; {advice}")

    typed = hint not in (Any, object)

    def encode(value: object) -> bytes:
        # Checked as plain objects first: the encoder itself would write NaN as null and 2**70 as it is. Without a
        # declared
        # type nothing is converted, so that what comes back is what was given.
        plain = msgspec.to_builtins(value, str_keys=True) if typed else value
        check_json(plain, what)
        return msgspec.json.encode(plain)

    return encode, decoder.decode


def _model(hint: Any, value: object) -> Any:
    return value if isinstance(value, hint) else hint.model_validate(value)


def _dump_model(model: Any, what: str) -> bytes:
    text: str = model.model_dump_json()
    # pydantic writes a number that is none as null, or as its configuration says: only then is it looked for.
    if "null" in text or "NaN" in text or "Infinity" in text:
        plain = model.model_dump(warnings=False)
        if has_no_number(plain):
            check_numbers(plain, json.loads(text), what)
    return text.encode()


def _rejected(what: str, error: Exception) -> PayloadRejected:
    if isinstance(error, msgspec.ValidationError):
        reason, _, path = str(error).partition(" - at `")
        return PayloadRejected(what, path.rstrip("`") or "$", reason)
    if isinstance(error, RecursionError):
        return PayloadRejected(what, "$", "nested too deeply")
    if isinstance(error, UnicodeEncodeError):
        return PayloadRejected(what, "$", f"the text is not valid Unicode ({error.reason})")
    return PayloadRejected(what, "$", str(error))


def encode_result(value: object, what: str, *, limit: int = DEFAULT_LIMIT) -> bytes:
    """A handler's return value as JSON. Raises `PayloadRejected` that names the type which cannot be stored."""
    if hasattr(value, "model_dump_json"):
        return _limited(_dump_model(value, what), what, limit)
    try:
        plain = msgspec.to_builtins(value, str_keys=False)
        check_json(plain, what)
        return _limited(msgspec.json.encode(plain), what, limit)
    except PayloadRejected:
        raise
    except (RecursionError, OverflowError, UnicodeEncodeError, TypeError, ValueError) as error:
        raise _rejected(what, error) from None


def _limited(data: bytes, what: str, limit: int) -> bytes:
    if len(data) > limit:
        advice = "keep it elsewhere and pass where" + (_RAISE if limit < LARGEST_PAYLOAD else "")
        raise PayloadRejected(what, "$", f"{len(data):,} bytes of JSON, the limit is {limit:,}: {advice}")
    return data
