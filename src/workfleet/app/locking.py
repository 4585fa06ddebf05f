"""The app's locks, made from a session and the lock section."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workfleet.locks.locks import Locks
from workfleet.settings.sections import LockSettings
from workfleet.supervision.board import Board

if TYPE_CHECKING:
    from .client import Session


def make_locks(session: Session, settings: LockSettings, board: Board | None = None) -> Locks:
    """The app's locks with these defaults. With a board they are renewed even while user code blocks the loop."""
    return Locks(
        session.store,
        owner=session.owner,
        clock=session.clock,
        publish=session.publish,
        prefix=settings.key_prefix,
        default_ttl=settings.default_ttl,
        retries=settings.retries,
        retry_delay=settings.retry_delay,
        board=board,
    )
