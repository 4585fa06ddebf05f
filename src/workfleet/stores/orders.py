"""A worker's pools and what it was ordered to do with them, as stores keep them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from workfleet.model.fleet import PoolOrder, PoolReport

_raw = msgspec.json.Decoder(list[msgspec.Raw])
_pools = msgspec.json.Decoder(tuple[PoolReport, ...])
_handlers = msgspec.json.Decoder(dict[str, tuple[str, ...]])
_order = msgspec.json.Decoder(PoolOrder)


def after(orders: tuple[PoolOrder, ...], new: PoolOrder) -> tuple[PoolOrder, ...]:
    """The orders with a new one, which is the last and takes the place of those that it makes senseless."""
    kept = (each for each in orders if each.id != new.id and (each.pool, each.verb) != (new.pool, new.verb))
    return (*kept, new)


def without(orders: tuple[PoolOrder, ...], obeyed: Collection[str]) -> tuple[PoolOrder, ...]:
    """Those that were not carried out yet."""
    return tuple(each for each in orders if each.id not in obeyed)


def pools_from(said: bytes | None) -> tuple[PoolReport, ...]:
    """From JSON. What a newer version has said means nothing to this one."""
    try:
        return _pools.decode(said) if said is not None else ()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()


def handlers_from(said: bytes | None) -> dict[str, tuple[str, ...]]:
    """From JSON. What cannot be read was not said."""
    try:
        return _handlers.decode(said) if said is not None else {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def orders_from(said: bytes | None) -> tuple[PoolOrder, ...]:
    """From JSON, without those that only a newer version understands."""
    return tuple(_readable(said)) if said is not None else ()


def _readable(said: bytes) -> Iterator[PoolOrder]:
    try:
        found = _raw.decode(said)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    for each in found:
        try:
            yield _order.decode(each)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
