"""Django's connections (`django.db.connection`, `connections["orders"]`), inside `transaction.atomic()` or not."""

from __future__ import annotations

from typing import Any

from .target import Parameters, SyncTarget, wrong_database


def sync_target(connection: Any) -> SyncTarget | None:
    """A database wrapper, or the proxy that stands for the default one."""
    # By the object, not by its class: `django.db.connection` is a proxy that answers for another object.
    if not all(hasattr(connection, name) for name in ("vendor", "in_atomic_block", "cursor")):
        return None
    if connection.vendor not in ("sqlite", "postgresql"):
        raise wrong_database(connection.vendor)

    def run(sql: str, parameters: Parameters) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)

    return SyncTarget("sqlite" if connection.vendor == "sqlite" else "postgresql", "%s", run)
