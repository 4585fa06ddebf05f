"""What a server must be before it may hold jobs: new enough, never evicting, writable. Asks once, changes nothing."""

from __future__ import annotations

from typing import Any

from workfleet.errors import StoreUnavailable

from .connection import Connection

_OLDEST = (6, 2)


async def check_server(connection: Connection, store: str) -> None:
    """Raises `StoreUnavailable` for a server that would lose jobs or cannot run the scripts."""
    facts = await server_facts(connection)
    version = facts.get("redis_version", "")
    if version and tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < _OLDEST:
        raise StoreUnavailable(store, f"its version is {version}", "Use Redis 6.2 or newer, or Valkey")
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        reason = f"it deletes keys when its memory is full (maxmemory-policy {policy}), so jobs would be lost"
        raise StoreUnavailable(store, reason, "Set maxmemory-policy to noeviction on the server")
    if facts.get("role", "master") != "master":
        reason = "it is a read-only replica"
        # One that is being promoted, or whose name will lead elsewhere, is worth waiting for.
        raise StoreUnavailable(store, reason, "Use its primary, or redis+sentinel:// which finds it", passing=True)


async def server_facts(connection: Connection) -> dict[str, str]:
    """What INFO says; what the user may not ask for is left out."""
    sections = [await _info(connection, name) for name in ("server", "memory", "persistence", "replication")]
    return {name: value for section in sections for name, value in section.items()}


async def _info(connection: Connection, section: str) -> dict[str, str]:
    try:
        said: Any = await connection.command("INFO", section)
    except StoreUnavailable as error:
        if "NOPERM" in error.reason:
            # A user who may not ask must be believed.
            return {}
        raise
    lines = (line.partition(":") for line in said.decode(errors="replace").splitlines())
    return {name: value for name, _, value in lines if value}
