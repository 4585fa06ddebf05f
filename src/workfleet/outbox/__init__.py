"""Transactional enqueue: jobs written into a table of the application's own database, by the transaction that needs
them, and moved from there into the store by a relay in the workers. `workfleet.Outbox` and `SyncOutbox` write them."""

from __future__ import annotations

from .relay import Relay
from .schema import TABLE, Dialect, ddl

__all__ = ["TABLE", "Dialect", "Relay", "ddl"]
