"""What a child said about an exception, made an exception again; and what cannot be sent, said clearly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workfleet.errors import PayloadRejected, RemoteError
from workfleet.pools import parcel, wire


def unpack(body: wire.Heard) -> Exception:
    """The child's exception, or a `RemoteError` where it could not travel; with the child's traceback as a note."""
    type_name, message, trace, pickled = wire.decode(body)
    error: object = None
    if pickled is not None:
        try:
            error = wire.decode(pickled)
        except Exception:  # noqa: BLE001 - unpickling runs the exception's own code, with another outcome than there
            error = None
    raised = error if isinstance(error, Exception) else RemoteError(type_name, message, trace)
    raised.add_note(f"in the child process:\n{trace}")
    return raised


def unsendable_result(pool: str, method: str, body: wire.Heard) -> PayloadRejected:
    type_name, reason = wire.decode(body)
    return PayloadRejected(f"result of {pool}.{method}", "$", f"{type_name} cannot be sent to the caller: {reason}")


def unreadable_result(pool: str, method: str, error: Exception) -> PayloadRejected:
    return PayloadRejected(f"result of {pool}.{method}", "$", f"it cannot be read in this process: {error}")


def request(
    pool: str, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], context: Mapping[str, Any] | None
) -> wire.Body:
    """The body of a call. Raises `PayloadRejected` that names the argument which cannot be sent."""
    try:
        return parcel.pack_call(method, args, kwargs, context)
    except Exception as error:
        path, value = _culprit(args, kwargs)
        kind = type(value).__qualname__
        raise PayloadRejected(
            f"arguments of {pool}.{method}", path, f"{kind} cannot be sent to a child process: {error}"
        ) from error


def _culprit(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, object]:
    named = [(f"$[{index}]", value) for index, value in enumerate(args)] + [(f"$.{k}", v) for k, v in kwargs.items()]
    for path, value in named:
        try:
            wire.encode(value)
        except Exception:  # noqa: BLE001 - as above
            return path, value
    return "$", (args, kwargs)
