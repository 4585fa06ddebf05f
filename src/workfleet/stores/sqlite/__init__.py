"""The embedded store: one SQLite file, several processes on one machine. The only place that imports APSW for a store.

Only APSW may open the file in a process that holds it: a second SQLite library there would drop its POSIX locks.
"""

from .backup import backup

__all__ = ["backup"]
